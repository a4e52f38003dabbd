{% set suffix = "_" ~ hint|upper if hint else "" %}
{% if variant == "cacheglobal" %}
struct SM80_CP_ASYNC_CACHEGLOBAL{{ suffix }} {
  static TILEGEN_DEVICE void copy(void* shared, const void* global, int line = __builtin_LINE()) {
    emulator::nvidia::cp_async(shared, global, 16, 16, line);
  }
};
{% elif variant == "cacheglobal_zfill" %}
struct SM80_CP_ASYNC_CACHEGLOBAL_ZFILL{{ suffix }} {
  static TILEGEN_DEVICE void copy(void* shared, const void* global, bool inside, int line = __builtin_LINE()) {
    emulator::nvidia::cp_async(shared, global, 16, inside ? 16 : 0, line);
  }
};
{% else %}
template <int kBytes>
struct SM80_CP_ASYNC_CACHEALWAYS_ZFILL{{ suffix }} {
  static_assert(kBytes == 4 || kBytes == 8, "cp.async.ca copies 4 or 8 bytes here; 16 go past L1");
  static TILEGEN_DEVICE void copy(void* shared, const void* global, bool inside, int line = __builtin_LINE()) {
    emulator::nvidia::cp_async(shared, global, kBytes, inside ? kBytes : 0, line);
  }
};
{% endif %}
