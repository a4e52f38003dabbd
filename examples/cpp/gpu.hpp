// The few calls of the CUDA or HIP runtime that the example needs, under one name.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#ifdef __HIP__
#include <hip/hip_runtime.h>

namespace gpu {
using Element = _Float16;
using Error = hipError_t;
constexpr Error kSuccess = hipSuccess;
inline const char* message(Error error) { return hipGetErrorString(error); }
inline Error allocate(void** pointer, std::size_t bytes) { return hipMalloc(pointer, bytes); }
inline Error release(void* pointer) { return hipFree(pointer); }
inline Error to_device(void* to, const void* from, std::size_t bytes) {
  return hipMemcpy(to, from, bytes, hipMemcpyHostToDevice);
}
inline Error to_host(void* to, const void* from, std::size_t bytes) {
  return hipMemcpy(to, from, bytes, hipMemcpyDeviceToHost);
}
}  // namespace gpu
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace gpu {
using Element = half;
using Error = cudaError_t;
constexpr Error kSuccess = cudaSuccess;
inline const char* message(Error error) { return cudaGetErrorString(error); }
inline Error allocate(void** pointer, std::size_t bytes) { return cudaMalloc(pointer, bytes); }
inline Error release(void* pointer) { return cudaFree(pointer); }
inline Error to_device(void* to, const void* from, std::size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
}
inline Error to_host(void* to, const void* from, std::size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
}
}  // namespace gpu
#endif

namespace gpu {

inline void check(Error error, const char* what) {
  if (error == kSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, message(error));
  std::exit(1);
}

// A matrix in device memory.
class Matrix {
 public:
  explicit Matrix(std::size_t elements) : bytes_(elements * sizeof(Element)) {
    check(allocate(reinterpret_cast<void**>(&data_), bytes_), "allocating");
  }
  explicit Matrix(const std::vector<Element>& values) : Matrix(values.size()) {
    check(to_device(data_, values.data(), bytes_), "copying to the device");
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { check(release(data_), "releasing"); }

  Element* data() const { return data_; }

  std::vector<Element> values() const {  // waits for the kernels before it
    std::vector<Element> result(bytes_ / sizeof(Element));
    check(to_host(result.data(), data_, bytes_), "running the kernel");
    return result;
  }

 private:
  std::size_t bytes_;
  Element* data_ = nullptr;
};

}  // namespace gpu
