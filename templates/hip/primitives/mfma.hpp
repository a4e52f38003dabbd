// v_{{ atom }}: {{ isa }} ISA, "Matrix Arithmetic Instructions". C[{{ m }}, {{ m }}] += A[{{ m }}, {{ k }}] B[{{ k }}, {{ m }}]. Lane l holds k
// {{ own }} (l / {{ m }}) + 0 ... {{ own - 1 }} of row l % {{ m }} of A and of column l % {{ m }} of B, and in register r row
// {{ row }} of that column of C. Gemms pass their B as a and their A as b: C comes out
// transposed, and a lane holds neighbours along a row of it.
TILEGEN_DEVICE void {{ atom }}({{ operand }} a, {{ operand }} b, float (&c)[{{ registers }}]) {
{% if carrier %}
  using Bits = {{ carrier }} __attribute__((ext_vector_type({{ own }})));
{% endif %}
  {{ accumulator }} sum;
  __builtin_memcpy(&sum, c, sizeof(sum));
{% if carrier %}
  sum = {{ builtin }}(__builtin_bit_cast(Bits, a), __builtin_bit_cast(Bits, b), sum, 0, 0, 0);
{% else %}
  sum = {{ builtin }}(a, b, sum, 0, 0, 0);
{% endif %}
  __builtin_memcpy(c, &sum, sizeof(sum));
}
