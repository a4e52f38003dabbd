template <class Value>
TILEGEN_DEVICE void buffer_store_b{{ bits }}(Value value, BufferResource resource, u32 offset, int line = __builtin_LINE()) {
  static_assert(sizeof(Value) == {{ bytes }});
  emulator::buffer_store(value, resource, offset, line);
}
