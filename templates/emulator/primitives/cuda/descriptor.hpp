TILEGEN_DEVICE u64 descriptor_sw{{ swizzle }}(const void* tile, u32 leading_offset, u32 stride_offset,
                                int line = __builtin_LINE()) {
  const u64 address = (emulator::shared_address(tile, line) & 0x3FFFF) >> 4;
  return address | u64(leading_offset >> 4) << 16 | u64(stride_offset >> 4) << 32 | {{ code }}ull << 62;
}
