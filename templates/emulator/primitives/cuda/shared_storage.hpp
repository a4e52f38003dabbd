TILEGEN_DEVICE SharedStorage& shared_storage() {
  return *static_cast<SharedStorage*>(emulator::dynamic_shared_memory());
}
