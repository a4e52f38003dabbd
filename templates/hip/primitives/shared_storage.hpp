// The block's LDS, laid out as Storage
template <class Storage>
TILEGEN_DEVICE Storage& shared_storage() {
  __shared__ Storage storage;
  return storage;
}
