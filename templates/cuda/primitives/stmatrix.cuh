// stmatrix: PTX ISA 9.7.14.5.16. {{ what }}; lane 8 i + j points at row j of matrix i.
TILEGEN_DEVICE void stmatrix_{{ suffix }}(void* row, const u32 (&r)[{{ count }}]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x{{ count }}{{ ".trans" if transpose else "" }}.shared.b16 [%0], { {{- store_operands -}} };"
               : : "r"(shared_address(row)), {{ inputs }} : "memory");
}
