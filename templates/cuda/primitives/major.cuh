// The dimension of a wgmma operand that is contiguous in shared memory; the value is the instruction's transpose bit
enum class Major { K, MN };
