template <class Storage>
TILEGEN_DEVICE Storage& shared_storage() {
  return *static_cast<Storage*>(emulator::dynamic_shared_memory());
}
