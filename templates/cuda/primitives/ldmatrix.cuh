// {{ what }}; lane 8 i + r points at row r of matrix i.
TILEGEN_DEVICE void ldmatrix_{{ suffix }}(u32 (&fragment)[{{ count }}], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x{{ count }}{{ ".trans" if transpose else "" }}.shared.b16 { {{- load_operands -}} }, [%{{ address_operand }}];"
               : {{ outputs }}
               : "r"(shared_address(row)) : "memory");
}
