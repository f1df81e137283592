// Four neighbouring values at once, 16 bytes of memory.

__device__ __forceinline__ float4& four(float* at) { return *reinterpret_cast<float4*>(at); }

__device__ __forceinline__ float4 read_four(const float* at) {
    return *reinterpret_cast<const float4*>(at);
}

__device__ __forceinline__ float4 add(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float4 subtract(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}

// a·b + c.
__device__ __forceinline__ float4 multiply_add(float4 a, float4 b, float4 c) {
    return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z),
                       fmaf(a.w, b.w, c.w));
}

__device__ __forceinline__ float4 scaled(float s, float4 a) {
    return make_float4(s * a.x, s * a.y, s * a.z, s * a.w);
}

__device__ __forceinline__ float4 relu(float4 a) {
    return make_float4(relu(a.x), relu(a.y), relu(a.z), relu(a.w));
}

__device__ __forceinline__ float4 pass_relu(float4 a, float4 y) {
    return make_float4(pass_relu(a.x, y.x), pass_relu(a.y, y.y), pass_relu(a.z, y.z),
                       pass_relu(a.w, y.w));
}

__device__ __forceinline__ void descend(float4& weight, float4& velocity, float4 gradient,
                                        float learning_rate, const Descent& rule) {
    descend(weight.x, velocity.x, gradient.x, learning_rate, rule);
    descend(weight.y, velocity.y, gradient.y, learning_rate, rule);
    descend(weight.z, velocity.z, gradient.z, learning_rate, rule);
    descend(weight.w, velocity.w, gradient.w, learning_rate, rule);
}

__device__ __forceinline__ float4 rounded(float4 a) {
    return make_float4(rounded(a.x), rounded(a.y), rounded(a.z), rounded(a.w));
}
