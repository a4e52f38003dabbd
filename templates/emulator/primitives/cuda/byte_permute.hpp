TILEGEN_DEVICE u32 byte_permute(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }
