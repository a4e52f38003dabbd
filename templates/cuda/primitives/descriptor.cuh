// Shared-memory matrix descriptor under the {{ swizzle }}-byte swizzle (9.7.15.5.1); offsets in bytes
TILEGEN_DEVICE u64 descriptor_sw{{ swizzle }}(const void* tile, u32 leading_offset, u32 stride_offset) {
  const u64 address = (shared_address(tile) & 0x3FFFF) >> 4;
  return address | u64(leading_offset >> 4) << 16 | u64(stride_offset >> 4) << 32 | {{ code }}ull << 62;
}
