TILEGEN_DEVICE SharedStorage& shared_storage() {  // the block's LDS
  __shared__ SharedStorage storage;
  return storage;
}
