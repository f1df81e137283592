// CUDA C++ as an ordinary compiler can read it: put before the text of every kernel.
#pragma once

#include <math.h>
#include <string.h>

#include "emulated.hpp"

#define EMULATED 1
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Blocks without a cluster run one at a time on a thread of the host.
#define __shared__ static __thread

#define threadIdx (emulated::place->thread)
#define blockIdx (emulated::place->block)
#define blockDim (emulated::place->threads)
#define gridDim (emulated::place->blocks)

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
inline int2 make_int2(int x, int y) { return int2{x, y}; }
inline float2 make_float2(float x, float y) { return float2{x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

template <typename T>
inline T __ldg(const T* at) {
    return *at;
}

template <typename To, typename From>
inline To same_bits(From from) {
    static_assert(sizeof(To) >= sizeof(From), "nothing is lost");
    To to{};
    memcpy(&to, &from, sizeof(From));
    return to;
}

template <typename T>
inline T __ldcg(const T* at) {
    return *at;
}
template <typename T>
inline void __stcg(T* at, T value) {
    *at = value;
}

inline uint32_t __float_as_uint(float x) { return same_bits<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return same_bits<float>(x); }
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }

// Four of the eight bytes of both, by the low digits of the selector.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
    uint64_t bytes = (uint64_t)high << 32 | low, result = 0;
    for (int i = 0; i < 4; ++i) result |= (bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return (uint32_t)result;
}

inline uint32_t atomicAdd(uint32_t* at, uint32_t by) {
    return __atomic_fetch_add(at, by, __ATOMIC_RELAXED);
}

inline void __syncthreads() { emulated::meet_block(); }

template <typename T>
inline T __shfl_xor_sync(uint32_t mask, T own, int by) {
    uint64_t other = emulated::exchange(mask, same_bits<uint64_t>(own)).values[threadIdx.x % 32 ^ by];
    T value;
    memcpy(&value, &other, sizeof value);
    return value;
}

inline uint32_t __ballot_sync(uint32_t mask, bool own) {
    emulated::Lanes lanes = emulated::exchange(mask, own);
    uint32_t votes = 0;
    for (int lane = 0; lane < 32; ++lane) {
        if (mask >> lane & 1 && lanes.values[lane]) votes |= 1u << lane;
    }
    return votes;
}

inline bool __any_sync(uint32_t mask, bool own) { return __ballot_sync(mask, own) != 0; }

// What `machine.cuh` has.
inline int opaque(int x) { return x; }
inline const float* opaque(const float* at) { return at; }

template <bool CACHED>
inline void copy_16(void* to, const void* from) {
    emulated::copy(to, from, 16, 16);
}
template <bool CACHED>
inline void copy_16(void* to, const void* from, int bytes) {
    emulated::copy(to, from, bytes, 16);
}
inline void copy_4(void* to, const void* from, int bytes) { emulated::copy(to, from, bytes, 4); }
inline void fetch_line(const void*) {}
inline void end_copies() { emulated::end_copies(); }
template <int BUT>
inline void wait_copies() {
    emulated::wait_copies(BUT);
}
inline void wait_all_copies() {
    emulated::end_copies();
    emulated::wait_copies(0);
}
inline void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                     uint32_t b1) {
    emulated::multiply(c, {a0, a1, a2, a3}, {b0, b1});
}
#if B_PACKED
using emulated::Arrival;  // and what there is for it
#endif
#if GROUPED
inline void show_tensor_cores() {}
inline void begin_products() {}
template <int BUT>
inline void finish_products() {
    emulated::finish_products(BUT);
}
inline void multiply_group(float (&c)[TILE_N / 8][4], const uint32_t (&a)[4], const float* tile,
                           int first) {
    emulated::start_product(c, TILE_N / 8, a, tile, first);
}
#endif
#if CLUSTER > 1
inline void arrive_at_cluster() { emulated::arrive_at_cluster(); }
inline void wait_for_cluster() { emulated::wait_for_cluster(); }
inline void meet_cluster() {
    emulated::arrive_at_cluster();
    emulated::wait_for_cluster();
}
template <typename T>
inline T read_other(const T* own, uint32_t block) {
    return *(const T*)emulated::in_other(own, block);
}
#endif

// The kernel as the driver calls it, and the size of what it is given.
template <typename Args>
inline void call(void (*kernel)(Args), const void* args) {
    kernel(*(const Args*)args);
}
template <typename Args>
constexpr unsigned size_of_args(void (*)(Args)) {
    return sizeof(Args);
}
