// Instructions that CUDA C++ has no words for. A copy to shared memory takes its time: what is
// copied can be read after `wait_copies` and a barrier.

// The emulator, which runs the kernels in tests where there is no GPU, has its own.
#ifndef EMULATED

__device__ __forceinline__ u32 shared_address(const void* at) {
    return (u32)__cvta_generic_to_shared(at);
}

// The same number, about which the compiler knows nothing: it would otherwise take sums of it and
// constants apart instead of leaving the constants to the instructions that read memory.
__device__ __forceinline__ int opaque(int x) {
    asm("" : "+r"(x));
    return x;
}

// CACHED: worth a place in the first cache, since neighbours read the same.
template <bool CACHED>
__device__ __forceinline__ void copy_16(void* to, const void* from) {
    if (CACHED) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)),
                     "l"(from));
    } else {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)),
                     "l"(from));
    }
}

// Copies as many of the 16 bytes, or 4, and zeros for the rest; of 0 bytes the address may be any.
template <bool CACHED>
__device__ __forceinline__ void copy_16(void* to, const void* from, int bytes) {
    if (CACHED) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                     "l"(from), "r"(bytes));
    } else {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                     "l"(from), "r"(bytes));
    }
}

__device__ __forceinline__ void copy_4(void* to, const void* from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(bytes));
}

// The copies since the last call are a group.
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;"); }

// Waits for all of the thread's groups but the last few.
template <int BUT>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(BUT));
}

// Waits for all of the thread's copies.
__device__ __forceinline__ void wait_all_copies() { asm volatile("cp.async.wait_all;"); }

// c ← c + a·b on the tensor cores, in TF32; `tensor.cuh` says which lane holds what.
__device__ __forceinline__ void multiply(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,
                                         u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

#if CLUSTER > 1
// What a thread wrote before it arrives can be read by the cluster's other blocks after they have
// waited. A thread arrives and waits in turn.
__device__ __forceinline__ void arrive_at_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_for_cluster() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Meets the other blocks of the cluster; what they wrote before can be read.
__device__ __forceinline__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// A value of another block's shared memory, which lies there as `own` does here.
__device__ __forceinline__ float read_other(const float* own, u32 block) {
    float value;
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [there]; }"
                 : "=f"(value)
                 : "r"(shared_address(own)), "r"(block));
    return value;
}

__device__ __forceinline__ float4 read_other(const float4* own, u32 block) {
    float4 value;
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(shared_address(own)), "r"(block));
    return value;
}
#endif

#endif
