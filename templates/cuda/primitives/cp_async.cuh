{% if variant == "cacheglobal" %}
// 16 bytes, past L1.
struct SM80_CP_ASYNC_CACHEGLOBAL {
  static TILEGEN_DEVICE void copy(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(shared_address(shared)), "l"(global) : "memory");
  }
};
{% elif variant == "cacheglobal_zfill" %}
// 16 bytes, past L1; zeros where the source is not inside.
struct SM80_CP_ASYNC_CACHEGLOBAL_ZFILL {
  static TILEGEN_DEVICE void copy(void* shared, const void* global, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(shared_address(shared)), "l"(global), "r"(inside ? 16 : 0) : "memory");
  }
};
{% else %}
// 4 or 8 bytes, through L1; zeros where the source is not inside.
template <int kBytes>
struct SM80_CP_ASYNC_CACHEALWAYS_ZFILL {
  static_assert(kBytes == 4 || kBytes == 8, "cp.async.ca copies 4 or 8 bytes here; 16 go past L1");
  static TILEGEN_DEVICE void copy(void* shared, const void* global, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 : : "r"(shared_address(shared)), "l"(global), "n"(kBytes), "r"(inside ? kBytes : 0) : "memory");
  }
};
{% endif %}
