// cvta.to.shared: PTX ISA 9.7.9.20
TILEGEN_DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }
