template <class Storage>  // the layout of dynamic shared memory
TILEGEN_DEVICE Storage& shared_storage() {
  extern __shared__ __align__(1024) char shared_bytes[];
  return *reinterpret_cast<Storage*>(shared_bytes);
}
