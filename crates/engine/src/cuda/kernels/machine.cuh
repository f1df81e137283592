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

__device__ __forceinline__ const float* opaque(const float* at) {
    asm("" : "+l"(at));
    return at;
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

// Has the second cache fetch a line of 128 bytes.
__device__ __forceinline__ void fetch_line(const void* at) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
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

#if B_PACKED
// Where the copies of whole tiles arrive, one after the other. It lies in shared memory.
typedef u64 Arrival;

// Before the first copy, by the thread that will start it; others may wait after a barrier.
__device__ __forceinline__ void expect_arrivals(Arrival* first, int count) {
    for (int i = 0; i < count; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(first + i)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Starts a copy of so many bytes, whole sixteens.
__device__ __forceinline__ void copy_whole(void* to, const void* from, int bytes, Arrival* arrival) {
    const u32 at = shared_address(arrival);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(at)
                 : "memory");
}

// Waits for the copy that comes there after `before` others. What it brought, threads and tensor cores can
// read.
__device__ __forceinline__ void wait_arrival(Arrival* arrival, int before) {
    u32 arrived;
    do {
        asm volatile("{ .reg .pred there;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 there, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, there; }"
                     : "=r"(arrived)
                     : "r"(shared_address(arrival)), "r"(before & 1)
                     : "memory");
    } while (!arrived);
}
#endif

#if GROUPED
// Four warps multiply together, and the tensor cores read B from shared memory by themselves. Between
// the start of a product and the wait for it, its registers and its tile must be left alone.

// What threads wrote to shared memory, the tensor cores can read after the next barrier.
__device__ __forceinline__ void show_tensor_cores() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Before products whose factors, or sums, were written to registers.
__device__ __forceinline__ void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// The products since the last call are a group. Waits for all groups but the last few.
template <int BUT>
__device__ __forceinline__ void finish_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned %0;" ::"n"(BUT)
                 : "memory");
}

// Starts c ← c + a·b, where a holds 8 terms of 16 rows, of each of four warps, as for `multiply`, and b
// lies in a tile of rows of 32 terms, one for each column of c, from term `first` on. The tile begins at
// a whole 1024 bytes, and the sixteens of row r are in the order 0 ^ r % 8, 1 ^ r % 8, …
#define SUMS(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define SUMS_4(j) SUMS(j), SUMS(j + 1), SUMS(j + 2), SUMS(j + 3)
#define NAMES_32                                                               \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                   \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_64                                                                   \
    NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"   \
             "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
__device__ __forceinline__ void multiply_group(float (&c)[TILE_N / 8][4], const u32 (&a)[4],
                                               const float* tile, int first) {
    // In sixteens: where it begins, a distance that is not used, 1024 bytes from eight rows to the
    // next; and the order of sixteens.
    const u64 b = (shared_address(tile) + 4 * first) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
#if TILE_N == 128
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {" NAMES_64
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1;"
                 : SUMS_4(0), SUMS_4(4), SUMS_4(8), SUMS_4(12)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
    static_assert(TILE_N == 64, "written for 64 and 128 columns");
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" NAMES_32
                 "}, {%32,%33,%34,%35}, %36, 1, 1, 1;"
                 : SUMS_4(0), SUMS_4(4)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}
#endif

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
