// Calls the emitted kernel C = max(A @ B, 0) and compares every element with a loop on the CPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "gpu.hpp"
#include TILEGEN_HEADER

namespace {

std::vector<gpu::Element> random_matrix(int elements, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<gpu::Element> values(elements);
  for (gpu::Element& value : values) value = static_cast<gpu::Element>(normal(generator));
  return values;
}

// The largest difference, in units of what rounding the result to fp16 may cost.
double worst_error(const std::vector<gpu::Element>& a, const std::vector<gpu::Element>& b,
                   const std::vector<gpu::Element>& c, int m, int n, int k) {
  double worst = 0;
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column) {
      double sum = 0;
      for (int i = 0; i < k; ++i)
        sum += static_cast<double>(static_cast<float>(a[row * k + i])) * static_cast<float>(b[i * n + column]);
      const double expected = std::max(sum, 0.0);
      const double rounding = std::ldexp(std::max(expected, 1.0), -11);
      worst = std::max(worst, std::abs(static_cast<float>(c[row * n + column]) - expected) / rounding);
    }
  return worst;
}

}  // namespace

int main() {
  const int m = 300, n = 520, k = 264;  // multiples of no tile
  const std::vector<gpu::Element> a = random_matrix(m * k, 1);
  const std::vector<gpu::Element> b = random_matrix(k * n, 2);

  const gpu::Matrix device_a(a), device_b(b), device_c(m * n);
  gpu::check(matmul_relu_launch(device_a.data(), device_b.data(), device_c.data(), m, n, k, nullptr), "launching");

  const double worst = worst_error(a, b, device_c.values(), m, n, k);
  std::printf("%d x %d x %d: worst element off by %.2f fp16 roundings\n", m, n, k, worst);
  return worst < 2 ? 0 : 1;
}
