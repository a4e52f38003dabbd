template <class Value>
TILEGEN_DEVICE Value buffer_load_b{{ bits }}(BufferResource resource, u32 offset) {
  return __builtin_bit_cast(Value, __builtin_amdgcn_raw_buffer_load_b{{ bits }}(resource, offset, 0, 0));
}
