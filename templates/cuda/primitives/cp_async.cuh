{% set suffix = "_" ~ hint|upper if hint else "" %}
{% if hint %}
{% set policy = "{\\n.reg .b64 policy;\\ncreatepolicy.fractional.L2::" ~ hint ~ ".b64 policy, 1.0;\\n" %}
{% endif %}
{% if variant == "cacheglobal" %}
// 16 bytes, past L1.
struct SM80_CP_ASYNC_CACHEGLOBAL{{ suffix }} {
  static TILEGEN_DEVICE void copy(void* shared, const void* global) {
{% if hint %}
    asm volatile("{{ policy }}"
                 "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, policy;\n}"
                 : : "r"(shared_address(shared)), "l"(global) : "memory");
{% else %}
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(shared_address(shared)), "l"(global) : "memory");
{% endif %}
  }
};
{% elif variant == "cacheglobal_zfill" %}
// 16 bytes, past L1; zeros where the source is not inside.
struct SM80_CP_ASYNC_CACHEGLOBAL_ZFILL{{ suffix }} {
  static TILEGEN_DEVICE void copy(void* shared, const void* global, bool inside) {
{% if hint %}
    asm volatile("{{ policy }}"
                 "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, policy;\n}"
{% else %}
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
{% endif %}
                 : : "r"(shared_address(shared)), "l"(global), "r"(inside ? 16 : 0) : "memory");
  }
};
{% else %}
// 4 or 8 bytes, through L1; zeros where the source is not inside.
template <int kBytes>
struct SM80_CP_ASYNC_CACHEALWAYS_ZFILL{{ suffix }} {
  static_assert(kBytes == 4 || kBytes == 8, "cp.async.ca copies 4 or 8 bytes here; 16 go past L1");
  static TILEGEN_DEVICE void copy(void* shared, const void* global, bool inside) {
{% if hint %}
    asm volatile("{{ policy }}"
                 "cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %2, %3, policy;\n}"
{% else %}
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
{% endif %}
                 : : "r"(shared_address(shared)), "l"(global), "n"(kBytes), "r"(inside ? kBytes : 0) : "memory");
  }
};
{% endif %}
