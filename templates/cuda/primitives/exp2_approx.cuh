// ex2: PTX ISA 9.7.3.21; relative error 2^-22, exp2(-inf) = 0
TILEGEN_DEVICE float exp2_approx(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
