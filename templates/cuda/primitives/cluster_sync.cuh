TILEGEN_DEVICE void cluster_sync() {
  __syncwarp();  // .aligned: a warp arrives as a whole
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
