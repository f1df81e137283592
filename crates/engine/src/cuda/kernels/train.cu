// The kernel around a `Trainer`, that of `resident.cu` or `deep.cu`. Blocks: (CLUSTER · replicas).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
#if CLUSTER > 1
    __cluster_dims__(CLUSTER, 1, 1)
#endif
        train_resident(const __grid_constant__ Resident p) {
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int replica = blockIdx.x / CLUSTER;
    if (!p.replicas[replica].active) return;
    Trainer(p, shared, replica, blockIdx.x % CLUSTER).run();
}
