// v_exp_f32: {{ isa }} ISA, "Vector ALU Operations"; relative error 2^-22, exp2(-inf) = 0
TILEGEN_DEVICE float exp2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
