// Groups of neighbouring elements, one group per thread. A group is read and written by accesses of
// up to 16 bytes if it is complete and its address is aligned, else element by element.
//
//      stream element   0        4        8        12
//                       |group 0 |group 1 |group 2 |      groups of 4, counted from element 0
//      call                  ^first      ^first + count   so that the first and the last may be cut
//
// The elements of a group share a Philox block, which its thread computes once.
#pragma once

#include <cstdint>

#include "core/host_device.h"

#if defined(__CUDACC__)
#include <cuda/atomic>
#endif

namespace apscope::detail {

// `count` elements of a stream from element `first` on.
struct ElementRange {
    std::uint64_t count, first;

    template <int Size>
    APSCOPE_HD std::uint64_t groups() const {
        return count == 0 ? 0 : (first + count - 1) / Size - first / Size + 1;
    }
    // The array index at which group g begins; an index before the array wraps around to a huge
    // number.
    template <int Size>
    APSCOPE_HD std::uint64_t offset(std::uint64_t g) const {
        return (first / Size + g) * Size - first;
    }
    template <int Size>
    APSCOPE_HD bool is_whole(std::uint64_t offset) const {
        return offset < count && count - offset >= Size;
    }
};

template <class T, int Size>
struct alignas(sizeof(T) * Size < 16 ? sizeof(T) * Size : 16) Packed {
    T at[Size];
};

template <class T, int Size>
APSCOPE_HD bool is_aligned(const T* p) {
    return reinterpret_cast<std::uintptr_t>(p) % alignof(Packed<T, Size>) == 0;
}
// nvcc compiles the cast pointer to one access, but memcpy to one access per byte. On the host, the
// cast would break the aliasing rules of C++.
template <class T, int Size>
APSCOPE_HD Packed<T, Size> load_packed(const T* p) {
#if defined(__CUDA_ARCH__)
    return *reinterpret_cast<const Packed<T, Size>*>(p);
#else
    Packed<T, Size> packed;
    __builtin_memcpy(&packed, p, sizeof packed);
    return packed;
#endif
}
template <class T, int Size>
APSCOPE_HD void store_packed(T* p, const Packed<T, Size>& packed) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<Packed<T, Size>*>(p) = packed;
#else
    __builtin_memcpy(p, &packed, sizeof packed);
#endif
}

// Elements outside the range are read as 0.
template <class T, int Size>
APSCOPE_HD void load_group(const T* array, const ElementRange& range, std::uint64_t offset,
                           T (&values)[Size]) {
    if (range.is_whole<Size>(offset) && is_aligned<T, Size>(array + offset)) {
        const auto packed = load_packed<T, Size>(array + offset);
        for (int j = 0; j < Size; ++j) values[j] = packed.at[j];
    } else {
        for (int j = 0; j < Size; ++j)
            values[j] = offset + j < range.count ? array[offset + j] : T{};
    }
}

template <class T, int Size>
APSCOPE_HD void store_group(T* array, const ElementRange& range, std::uint64_t offset,
                            const T (&values)[Size]) {
    if (range.is_whole<Size>(offset) && is_aligned<T, Size>(array + offset)) {
        Packed<T, Size> packed;
        for (int j = 0; j < Size; ++j) packed.at[j] = values[j];
        store_packed<T, Size>(array + offset, packed);
    } else {
        for (int j = 0; j < Size; ++j) {
            if (offset + j < range.count) array[offset + j] = values[j];
        }
    }
}

// Sets *min to `index` if that is less; after all threads, *min is the smallest index.
APSCOPE_HD void note_first(unsigned long long* min, std::uint64_t index) {
#if defined(__CUDA_ARCH__)
    atomicMin(min, static_cast<unsigned long long>(index));
#else
    if (index < *min) *min = index;
#endif
}

// Sets *largest to `number` if that is larger; after all threads, *largest is the largest number. A
// thread reads *largest first, so most threads need no atomic maximum.
APSCOPE_HD void note_largest(std::uint32_t* largest, std::uint32_t number) {
#if defined(__CUDA_ARCH__)
    if (number > cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device>(*largest).load(
                     cuda::std::memory_order_relaxed))
        atomicMax(largest, number);
#else
    if (number > *largest) *largest = number;
#endif
}
// Sets the bits of a number in *all; after all threads, *all has the bits of every number.
APSCOPE_HD void note_bits(std::uint32_t* all, std::uint32_t number) {
#if defined(__CUDA_ARCH__)
    const std::uint32_t known =
        cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device>(*all).load(
            cuda::std::memory_order_relaxed);
    if ((number & ~known) != 0) atomicOr(all, number);
#else
    *all |= number;
#endif
}

}  // namespace apscope::detail
