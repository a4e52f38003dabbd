template <class Value>
TILEGEN_DEVICE Value buffer_load_b{{ bits }}(BufferResource resource, u32 offset, int line = __builtin_LINE()) {
  static_assert(sizeof(Value) == {{ bytes }});
  return emulator::buffer_load<Value>(resource, offset, line);
}
