// Products of small tiles on the tensor cores, as exact as TERMS says.

// A factor as TERMS > 1 ? two numbers : one. The second is what rounding took from the first.
struct Factor {
    u32 high;
#if TERMS > 1
    u32 low;
#endif
};

__device__ __forceinline__ Factor factor(float x) {
    Factor f;
    f.high = tf32(x);
#if TERMS > 1
    f.high &= 0xffffe000u;
    f.low = tf32(x - __uint_as_float(f.high));
#endif
    return f;
}

// What a factor stands for.
__device__ __forceinline__ float whole(Factor f) {
#if TERMS > 1
    return __uint_as_float(f.high) + __uint_as_float(f.low & 0xffffe000u);
#else
    return __uint_as_float(f.high & 0xffffe000u);
#endif
}

// c ← c + a·b, with a (16, 8), b (8, 8), c (16, 8). With g = lane / 4 and t = lane % 4, a lane
// holds a at (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4), b at (t, g), (t + 4, g),
// and c at (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
__device__ __forceinline__ void multiply(float (&c)[4], const Factor (&a)[4], const Factor (&b)[2]) {
#if TERMS > 1
    // The units cut their sums off instead of rounding them: long sums are added up outside.
    float sum[4] = {};
    multiply(sum, a[0].low, a[1].low, a[2].low, a[3].low, b[0].high, b[1].high);
    multiply(sum, a[0].high, a[1].high, a[2].high, a[3].high, b[0].low, b[1].low);
    multiply(sum, a[0].high, a[1].high, a[2].high, a[3].high, b[0].high, b[1].high);
#pragma unroll
    for (int part = 0; part < 4; ++part) c[part] += sum[part];
#else
    multiply(c, a[0].high, a[1].high, a[2].high, a[3].high, b[0].high, b[1].high);
#endif
}
