// Records what this GPU's matrix units answer: D = A B + C of tiles, bit for bit, on operands that
// tell alignment, cuts, the number of products of a step and the place of C apart, and on values
// that are not finite, subnormal numbers and the smallest and largest exponents.
// Build, run, then compare with the reference (tests/data/README.md):
// `nvcc -arch=sm_90a -O2 -o record_matrix_units tests/cuda/record_matrix_units.cu`,
// `./record_matrix_units OUT`, `python -m tests.cuda.matrix_units OUT --save matrix_units.npz`.
// -arch is the device's: sm_70 (nvcc 12), sm_75, sm_80, sm_86, sm_89, sm_90a (with wgmma), sm_100a,
// sm_120a. A B200's tcgen05 is not recorded. It takes seconds, and a few MB in the folder OUT: for
// each instruction a file NAME.bin of int32 {m, n, k, bytes of a code, bytes of a result, cases,
// kinds of cases}, A (cases, m, k), B (cases, n, k), C and D (cases, m, n), codes and bits as they
// are. Exit status 1 if a sum of ones is wrong: then the tiles were not laid out as the device has
// them.
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
    std::exit(2);
}
#define CHECK(call) check(call, #call)

enum Kind { F16, BF16, TF32, E4M3, E5M2 };

// The architecture that the kernels were compiled for, and whether they have wgmma.
__global__ void compiled(int* out) {
#ifdef __CUDA_ARCH__
    out[0] = __CUDA_ARCH__ / 10;
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    out[1] = 1;
#endif
}

// A lane's part of a result of 16 rows and 8 columns: rows lane / 4 and 8 below, two columns each.
template <typename Result, typename Use>
__device__ void each_result(Result* tile, int lane, Use use) {
    for (int i = 0; i < 4; ++i) use(tile[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2], i);
}

// As many bytes as a register: of a row's k, 4 (lane % 4) bytes in, or 16 further.
__device__ uint32_t word(const uint8_t* row, int lane, int half) {
    uint32_t out;
    memcpy(&out, row + lane % 4 * 4 + half * 16, 4);
    return out;
}

#define MMA_F32(SHAPE, T)                                                  \
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." T "." T         \
                 ".f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_F16(SHAPE, T)                                          \
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f16." T "." T \
                 ".f16 {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};"     \
                 : "+r"(h[0]), "+r"(h[1])                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// One instruction of a warp. The registers of d, or of h, which holds two results each.
template <Kind KIND>
__device__ void multiply(const uint32_t* a, const uint32_t* b, float* d) {
#if __CUDA_ARCH__ >= 800
    if constexpr (KIND == F16) MMA_F32("m16n8k16", "f16");
    if constexpr (KIND == BF16) MMA_F32("m16n8k16", "bf16");
    if constexpr (KIND == TF32) MMA_F32("m16n8k8", "tf32");
#elif __CUDA_ARCH__ >= 750
    if constexpr (KIND == F16)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},"
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
#if __CUDA_ARCH__ >= 890
    if constexpr (KIND == E4M3) MMA_F32("m16n8k32", "e4m3");
    if constexpr (KIND == E5M2) MMA_F32("m16n8k32", "e5m2");
#endif
}

template <Kind KIND>
__device__ void multiply(const uint32_t* a, const uint32_t* b, uint32_t* h) {
#if __CUDA_ARCH__ >= 800
    if constexpr (KIND == F16) MMA_F16("m16n8k16", "f16");
#elif __CUDA_ARCH__ >= 750
    if constexpr (KIND == F16)
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3},{%4},{%0,%1};"
            : "+r"(h[0]), "+r"(h[1])
            : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
#if __CUDA_ARCH__ >= 890
    if constexpr (KIND == E4M3) MMA_F16("m16n8k32", "e4m3");
    if constexpr (KIND == E5M2) MMA_F16("m16n8k32", "e5m2");
#endif
}

// Reads C into the registers of the results' format, lets the instruction add, writes D.
template <typename Result, typename Add>
__device__ void accumulate(const Result* C, Result* D, int lane, Add add) {
    if constexpr (sizeof(Result) == 4) {
        float d[4];
        each_result(C, lane, [&](const Result& c, int i) { d[i] = c; });
        add(d);
        each_result(D, lane, [&](Result& out, int i) { out = d[i]; });
    } else {
        Result halves[4];
        uint32_t h[2];
        each_result(C, lane, [&](const Result& c, int i) { halves[i] = c; });
        memcpy(h, halves, 8);
        add(h);
        memcpy(halves, h, 8);
        each_result(D, lane, [&](Result& out, int i) { out = halves[i]; });
    }
}

// Volta's m8n8k4: four groups of eight lanes have a tile each; all are given the same one.
template <typename Result>
__device__ void volta(const uint8_t* A, const uint8_t* B, const Result* C, Result* D, int lane) {
#if __CUDA_ARCH__ < 750
    const int row = lane % 4 + lane / 16 * 4;
    uint32_t a[2], b[2];
    memcpy(a, A + row * 8, 8);
    memcpy(b, B + row * 8, 8);
    if constexpr (sizeof(Result) == 4) {
        float d[8];
        int at[8];
        for (int i = 0; i < 8; ++i) {
            at[i] = ((lane & 1) + (i & 2) + lane / 16 * 4) * 8 + (i & 4) + (lane & 2) + (i & 1);
            d[i] = C[at[i]];
        }
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7},"
                     "{%8,%9},{%10,%11},{%0,%1,%2,%3,%4,%5,%6,%7};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                       "+f"(d[6]), "+f"(d[7])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
        for (int i = 0; i < 8; ++i) D[at[i]] = d[i];
    } else {
        uint32_t h[4];
        memcpy(h, C + row * 8, 16);
        asm volatile(
            "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%0,%1,%2,%3},{%4,%5},{%6,%7},"
            "{%0,%1,%2,%3};"
            : "+r"(h[0]), "+r"(h[1]), "+r"(h[2]), "+r"(h[3])
            : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
        memcpy(D + row * 8, h, 16);
    }
#endif
}

// mma.sync, a warp for each tile. A: rows of `bytes` bytes; B: columns of as many.
template <Kind KIND, typename Result>
__global__ void mma(const uint8_t* A, const uint8_t* B, const Result* C, Result* D, int m,
                    int bytes) {
    const int lane = threadIdx.x, i = blockIdx.x;
    A += i * m * bytes;
    B += i * 8 * bytes;
    C += i * m * 8;
    D += i * m * 8;
    if (m == 8) return volta(A, B, C, D, lane);
    uint32_t a[4] = {}, b[2] = {};
    for (int half = 0; half < bytes / 16; ++half) {
        for (int below = 0; below < 2; ++below)
            a[half * 2 + below] = word(A + (lane / 4 + below * 8) * bytes, lane, half);
        b[half] = word(B + lane / 4 * bytes, lane, half);
    }
    accumulate(C, D, lane, [&](auto* d) { multiply<KIND>(a, b, d); });
}

#define WGMMA_F32(SHAPE, T, TAIL)                                                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned." SHAPE \
                 ".f32." T "." T " {%0,%1,%2,%3},{%4,%5,%6,%7},%8,p,1,1" TAIL ";}"         \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define WGMMA_F16(SHAPE, T, TAIL)                                                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned." SHAPE \
                 ".f16." T "." T " {%0,%1},{%2,%3,%4,%5},%6,p,1,1" TAIL ";}"               \
                 : "+r"(h[0]), "+r"(h[1])                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

template <Kind KIND>
__device__ void multiply_group(const uint32_t* a, uint64_t b, float* d) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (KIND == F16) WGMMA_F32("m64n8k16", "f16", ",0");
    if constexpr (KIND == BF16) WGMMA_F32("m64n8k16", "bf16", ",0");
    if constexpr (KIND == TF32) WGMMA_F32("m64n8k8", "tf32", "");
    if constexpr (KIND == E4M3) WGMMA_F32("m64n8k32", "e4m3", "");
    if constexpr (KIND == E5M2) WGMMA_F32("m64n8k32", "e5m2", "");
#endif
}

template <Kind KIND>
__device__ void multiply_group(const uint32_t* a, uint64_t b, uint32_t* h) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (KIND == F16) WGMMA_F16("m64n8k16", "f16", ",0");
    if constexpr (KIND == E4M3) WGMMA_F16("m64n8k32", "e4m3", "");
    if constexpr (KIND == E5M2) WGMMA_F16("m64n8k32", "e5m2", "");
#endif
}

// wgmma, four warps for each tile of 64 rows, 16 rows a warp. B lies in shared memory without
// swizzle: 8 columns by 16 bytes are 128 bytes, one such piece after the other along k.
template <Kind KIND, typename Result>
__global__ void wgmma(const uint8_t* A, const uint8_t* B, const Result* C, Result* D) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    const int thread = threadIdx.x, lane = thread % 32, i = blockIdx.x;
    __shared__ alignas(128) uint8_t shared[256];
    for (int j = thread; j < 256; j += 128)
        shared[j % 32 / 16 * 128 + j / 32 * 16 + j % 16] = B[i * 256 + j];
    __syncthreads();
    asm volatile("fence.proxy.async;" ::: "memory");
    const int rows = i * 64 + thread / 32 * 16;
    uint32_t a[4];
    for (int r = 0; r < 4; ++r) a[r] = word(A + (rows + lane / 4 + r % 2 * 8) * 32, lane, r / 2);
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    // The descriptor: the address, the step to the next piece along k, and along n, in 16 bytes.
    const uint64_t b =
        (address & 0x3FFFF) >> 4 | uint64_t{128 >> 4} << 16 | uint64_t{256 >> 4} << 32;
    accumulate(C + rows * 8, D + rows * 8, lane, [&](auto* d) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        multiply_group<KIND>(a, b, d);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    });
#endif
}

struct Type {
    const char* name;
    int bytes, exponent_bits, fraction_bits, bias;
    bool infinite;  // has infinities; otherwise the largest code alone is a NaN
    int unused;     // low bits of a code
    int top() const { return (1 << exponent_bits) - 1; }
    uint32_t make(uint32_t sign, int exponent, uint32_t fraction) const {
        const uint32_t code = sign << (exponent_bits + fraction_bits) |
                              static_cast<uint32_t>(exponent) << fraction_bits | fraction;
        return code << unused;
    }
    double value(uint32_t code) const {
        code >>= unused;
        const int e = static_cast<int>(code >> fraction_bits) & top();
        const double f = code & ((1u << fraction_bits) - 1);
        const double size = e == 0 ? std::ldexp(f, 1 - bias - fraction_bits)
                                   : std::ldexp(f + (1 << fraction_bits), e - bias - fraction_bits);
        return code >> (exponent_bits + fraction_bits) & 1 ? -size : size;
    }
};
const Type types[] = {{"f16", 2, 5, 10, 15, true, 0},
                      {"bf16", 2, 8, 7, 127, true, 0},
                      {"tf32", 4, 8, 10, 127, true, 13},
                      {"e4m3", 1, 4, 3, 7, false, 0},
                      {"e5m2", 1, 5, 2, 15, true, 0}};

// Kinds of cases, one after the other; tests/cuda/matrix_units.py names them. 0 to 6: exponents
// within so many of 1.
enum Case { ONES = 7, ALL, SMALL, ZEROS, NOT_FINITE, LARGE, LOWEST, CASES };
const int within[] = {0, 1, 2, 4, 6, 10, 14};

// The operands and C of one tile.
struct Tile {
    const Type& t;
    int m, k, kind;
    bool half, cancels;
    std::mt19937& g;
    std::vector<uint32_t> a, b;  // (m, k), (n, k)
    std::vector<double> c;

    uint32_t draw(uint32_t below) { return g() % below; }
    uint32_t number(int low, int high) {
        low = std::max(low, 0);
        high = std::min(high, t.infinite ? t.top() - 1 : t.top());
        const int e = low + static_cast<int>(draw(high - low + 1));
        const uint32_t fraction = draw((1u << t.fraction_bits) - (e == t.top()));
        return t.make(draw(2), e, fraction);
    }
    uint32_t operand() {
        const bool wide = t.exponent_bits == 8;
        switch (kind) {
            case ONES: return t.make(draw(2), t.bias, 0);
            case LOWEST: return t.make(draw(2), 0, 0);
            case ALL: return number(0, t.top());
            case SMALL:
            case ZEROS: return wide ? number(t.bias - 80, t.bias - 60) : number(0, 3);
            case LARGE: return number(t.top() - 3, t.top());
            case NOT_FINITE: return number(t.bias - 2, t.bias + 2);
            default: return number(t.bias - within[kind], t.bias + within[kind]);
        }
    }
    uint32_t not_finite() {
        const uint32_t all = (1u << t.fraction_bits) - 1;
        const bool infinity = t.infinite && draw(2);
        return t.make(draw(2), t.top(), infinity ? 0 : t.infinite ? 1 + draw(all) : all);
    }
    double addend() {
        const double sign = draw(2) ? -1 : 1;
        const uint32_t what = draw(4);
        if (kind == ONES || kind == LOWEST || what == 0) return sign * 0.0;
        if (kind == NOT_FINITE && draw(8) == 0) return draw(3) ? sign * INFINITY : NAN;
        int low = -22, high = 22;
        if (what == 1) low = high = 0;
        if (what == 2) low = -6, high = 18;
        if (kind == SMALL || kind == ZEROS) low = half ? -25 : -149, high = half ? -10 : -110;
        if (kind == LARGE) low = half ? 8 : 90, high = half ? 15 : 127;
        const int e = low + static_cast<int>(draw(high - low + 1));
        return sign * std::ldexp(1 + std::ldexp(draw(1 << 23), -23), e);
    }
    // The pair of k whose products cancel, and tower over the rest.
    void cancel() {
        const int p = draw(k), q = (p + 1 + draw(k - 1)) % k, lift = 3 + draw(5);
        const auto lifted = [&](uint32_t code) {
            const uint32_t low = t.make(0, 0, (1u << t.fraction_bits) - 1);
            const int e = static_cast<int>(code >> (t.fraction_bits + t.unused)) & t.top();
            return (code & low) | t.make(0, std::min(e + lift, t.top() - 1), 0);
        };
        for (size_t row = 0; row < a.size(); row += k) {
            a[row + p] = lifted(a[row + p]);
            a[row + q] = a[row + p] ^ t.make(1, 0, 0);
        }
        for (size_t column = 0; column < b.size(); column += k)
            b[column + q] = b[column + p] = lifted(b[column + p]);
    }
    // 2^e, or the smallest number.
    uint32_t power(uint32_t sign, int e) const {
        const int smallest = 1 - t.bias - t.fraction_bits;
        return e > -t.bias ? t.make(sign, e + t.bias, 0)
                           : t.make(sign, 0, 1u << (std::max(e, smallest) - smallest));
    }
    // Two products beside zeros. The first is the smallest fp32 number, or half of fp16's; the
    // second, from 2^-1 to 2^-22 of it, takes from the former and adds to the latter: a result
    // tells whether the second is cut. In each sixteenth row all terms are zeros.
    void lowest() {
        const int p = draw(k), q = (p + 1 + draw(k - 1)) % k;
        const uint32_t sign = draw(2);
        for (int row = 0; row < m; ++row) {
            if (row % 16 == 15) continue;
            a[row * k + p] = power(sign, half ? -12 : -75);
            a[row * k + q] = half ? power(sign, -13 - row % 12) : power(1 - sign, -76 - row % 16);
        }
        for (size_t column = 0; column < b.size() / k; ++column) {
            b[column * k + p] = power(0, half ? -13 : -74);
            b[column * k + q] = power(0, (half ? -16 : -74) - static_cast<int>(column));
        }
    }
    void fill() {
        for (auto* v : {&a, &b})
            for (auto& code : *v) code = operand();
        for (auto& number : c) number = addend();
        if (kind == LOWEST) lowest();
        else if (cancels && kind != ONES) cancel();
        if (kind == ZEROS)  // zeros beside the largest numbers
            for (int p = 0; p < k; p += 3)
                for (auto* v : {&a, &b})
                    for (size_t row = 0; row < v->size(); row += k)
                        (*v)[row + p] =
                            v == &a ? t.make(draw(2), 0, 0)
                                    : t.make(draw(2), t.top() - 1, draw(1u << t.fraction_bits));
        if (kind == NOT_FINITE)
            for (auto* v : {&a, &b})
                for (size_t row = 0; row < v->size(); row += k)
                    if (draw(4) == 0)
                        (*v)[row + draw(k)] = draw(3) ? not_finite() : t.make(0, 0, 0);
    }
};

template <typename T>
T* on_device(const std::vector<T>& v) {
    T* out;
    CHECK(cudaMalloc(&out, v.size() * sizeof(T)));
    CHECK(cudaMemcpy(out, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return out;
}

template <typename Result>
double wide(Result x) {
    if constexpr (sizeof(Result) == 2) return __half2float(x);
    else return x;
}

// One file. Returns whether each sum of ones is exact.
template <Kind KIND, typename Result, bool WGMMA>
bool record(const std::string& folder, int m, int k) {
    const Type& t = types[KIND];
    const bool half = sizeof(Result) == 2;
    const int n = 8, cases = CASES * (WGMMA ? 4 : 8), bytes = k * t.bytes;
    std::mt19937 g(12345 + KIND);
    std::vector<uint8_t> A, B;
    std::vector<Result> C;
    std::vector<double> exact;  // of ones
    for (int i = 0; i < cases; ++i) {
        Tile tile{t,
                  m,
                  k,
                  i % CASES,
                  half,
                  i / CASES % 2 == 1,
                  g,
                  std::vector<uint32_t>(m * k),
                  std::vector<uint32_t>(n * k),
                  std::vector<double>(m * n)};
        tile.fill();
        for (auto* v : {&tile.a, &tile.b})
            for (const uint32_t code : *v)
                for (int byte = 0; byte < t.bytes; ++byte)
                    (v == &tile.a ? A : B).push_back(static_cast<uint8_t>(code >> 8 * byte));
        for (const double number : tile.c)
            C.push_back(static_cast<Result>(static_cast<float>(number)));
        for (int j = 0; j < m * n && tile.kind == ONES; ++j) {
            exact.push_back(0);
            for (int p = 0; p < k; ++p)
                exact.back() += t.value(tile.a[j / n * k + p]) * t.value(tile.b[j % n * k + p]);
        }
    }
    std::vector<Result> D(C.size());
    uint8_t *a = on_device(A), *b = on_device(B);
    Result *c = on_device(C), *d = on_device(D);
    if constexpr (WGMMA) wgmma<KIND><<<cases, 128>>>(a, b, c, d);
    else mma<KIND><<<cases, 32>>>(a, b, c, d, m, bytes);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(D.data(), d, D.size() * sizeof(Result), cudaMemcpyDeviceToHost));
    for (void* memory : {(void*)a, (void*)b, (void*)c, (void*)d}) CHECK(cudaFree(memory));
    size_t right = 0;
    for (size_t j = 0; j < exact.size(); ++j)
        right += wide(D[(j / (m * n) * CASES + ONES) * m * n + j % (m * n)]) == exact[j];
    const std::string name =
        std::string(WGMMA ? "wgmma_" : "mma_") + t.name + (half ? "_fp16" : "");
    std::printf("%-15s %zu of %zu sums of ones are right\n", name.c_str(), right, exact.size());
    std::FILE* file = std::fopen((folder + "/" + name + ".bin").c_str(), "wb");
    if (!file) {
        std::printf("%s cannot be written\n", folder.c_str());
        std::exit(2);
    }
    const int32_t head[] = {m, n, k, t.bytes, static_cast<int32_t>(sizeof(Result)), cases, CASES};
    std::fwrite(head, 4, 7, file);
    std::fwrite(A.data(), 1, A.size(), file);
    std::fwrite(B.data(), 1, B.size(), file);
    std::fwrite(C.data(), sizeof(Result), C.size(), file);
    std::fwrite(D.data(), sizeof(Result), D.size(), file);
    std::fclose(file);
    return right == exact.size();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::printf("usage: record_matrix_units FOLDER\n");
        return 2;
    }
    const std::string folder = argv[1];
    int* arch = on_device(std::vector<int>(2));
    compiled<<<1, 1>>>(arch);
    CHECK(cudaGetLastError());
    int has[2];
    CHECK(cudaMemcpy(has, arch, sizeof has, cudaMemcpyDeviceToHost));
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("%s, kernels of sm_%d%s\n", device.name, has[0], has[1] ? "a" : "");
    const int m = has[0] < 75 ? 8 : 16, k = has[0] < 75 ? 4 : has[0] < 80 ? 8 : 16;
    bool right = record<F16, float, false>(folder, m, k) & record<F16, __half, false>(folder, m, k);
    if (has[0] >= 80) {
        right &= record<BF16, float, false>(folder, 16, 16);
        right &= record<TF32, float, false>(folder, 16, 8);
    }
    if (has[0] >= 89) {
        right &= record<E4M3, float, false>(folder, 16, 32);
        right &= record<E4M3, __half, false>(folder, 16, 32);
        right &= record<E5M2, float, false>(folder, 16, 32);
        right &= record<E5M2, __half, false>(folder, 16, 32);
    }
    if (has[1]) {
        right &= record<F16, float, true>(folder, 64, 16);
        right &= record<F16, __half, true>(folder, 64, 16);
        right &= record<BF16, float, true>(folder, 64, 16);
        right &= record<TF32, float, true>(folder, 64, 8);
        right &= record<E4M3, float, true>(folder, 64, 32);
        right &= record<E4M3, __half, true>(folder, 64, 32);
        right &= record<E5M2, float, true>(folder, 64, 32);
        right &= record<E5M2, __half, true>(folder, 64, 32);
    }
    return right ? 0 : 1;
}
