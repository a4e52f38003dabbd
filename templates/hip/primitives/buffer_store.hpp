template <class Value>
TILEGEN_DEVICE void buffer_store_b{{ bits }}(Value value, BufferResource resource, u32 offset) {
  __builtin_amdgcn_raw_buffer_store_b{{ bits }}(__builtin_bit_cast({{ carrier }}, value), resource, offset, 0, 0);
}
