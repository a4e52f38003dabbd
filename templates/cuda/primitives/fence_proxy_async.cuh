// Plain writes to shared memory become visible to TMA and wgmma.
TILEGEN_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
