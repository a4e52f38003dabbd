// Counts the block in, up to last and on to 0; after it, the block sees what those wrote who have counted before.
TILEGEN_DEVICE u32 count_in(u32& counter, u32 last) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  const u32 before = atomicInc(&counter, last);
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
  return before;
}
