// Loads, stores and atomics, which are checked and counted, and what the lanes of a warp exchange.
#include <algorithm>
#include <stdexcept>

#include "operations.h"

namespace apscope::interpreter {

namespace {

// ---- Memory -----------------------------------------------------------------------------------

void check(Warp& w, U64 address, U64 bytes, bool is_store) {
    if (address % bytes != 0)
        throw std::runtime_error("a misaligned address of " + std::to_string(bytes) + " bytes");
    if (address >= w.own_begin && address + bytes <= w.own_end) return;
    if (address >= w.known_begin && address + bytes <= w.known_end) return;
    if (!is_store)
        for (const auto& [begin, end] : *w.parameters)
            if (address >= begin && address + bytes <= end) return;
    const auto [begin, end] = w.memory->around(address);
    if (begin == 0 || address + bytes > end)
        throw std::runtime_error("an access outside of the memory that was allocated");
    w.known_begin = begin;
    w.known_end = end;
}

// Counts an access of the warp, by the 32-byte sectors of the device's memory.
void count_sectors(Warp& w, const U64* address, std::int64_t offset, U64 bytes, bool is_store) {
    U64 sectors[lanes];
    int n = 0;
    each(w, [&](int l) {
        const U64 at = address[l] + static_cast<U64>(offset);
        if (at >= w.own_begin && at < w.own_end) return;
        if (at >= w.known_begin && at < w.known_end) sectors[n++] = at / 32;
    });
    if (n == 0) return;
    std::sort(sectors, sectors + n);
    const auto different = static_cast<U64>(std::unique(sectors, sectors + n) - sectors);
    (is_store ? w.counts->stored_sectors : w.counts->loaded_sectors) += different;
    (is_store ? w.counts->stores_by_bytes : w.counts->loads_by_bytes)[std::countr_zero(bytes)] += 1;
}

template <class T>
T at(U64 address) {
    T x;
    __builtin_memcpy(&x, reinterpret_cast<const void*>(address), sizeof x);
    return x;
}
U64 load_one(U64 address, const Op& op) {
    switch (op.bytes) {
        case 1:
            return op.is_signed ? static_cast<U64>(S64{at<std::int8_t>(address)})
                                : at<std::uint8_t>(address);
        case 2: return op.is_signed ? static_cast<U64>(S64{at<S16>(address)}) : at<U16>(address);
        case 4: return op.is_signed ? static_cast<U64>(S64{at<S32>(address)}) : at<U32>(address);
        default: return at<U64>(address);
    }
}
void load(Warp& w, const Op& op) {
    const U64* address = w.row(op.from[0]);
    const U64 ones = op.to_bits >= 64 ? ~U64{0} : (U64{1} << op.to_bits) - 1,
              all = U64{op.bytes} * op.count;
    U64 first[lanes];
    each(w, [&](int l) { first[l] = address[l] + static_cast<U64>(op.offset); });
    each(w, [&](int l) {
        check(w, first[l], all, false);
        for (int k = 0; k < op.count; ++k)
            w.row(op.to[k])[l] =
                load_one(first[l] + U64{op.bytes} * static_cast<U64>(k), op) & ones;
    });
    if (op.cost == Class::load) count_sectors(w, first, 0, all, false);
}
void store(Warp& w, const Op& op) {
    const U64 *address = w.row(op.from[0]), all = U64{op.bytes} * op.count;
    each(w, [&](int l) {
        const U64 first = address[l] + static_cast<U64>(op.offset);
        check(w, first, all, true);
        for (int k = 0; k < op.count; ++k)
            __builtin_memcpy(reinterpret_cast<void*>(first + U64{op.bytes} * static_cast<U64>(k)),
                             &w.row(op.from[1 + k])[l], op.bytes);
    });
    if (op.cost == Class::store) count_sectors(w, address, op.offset, all, true);
}
void copy_parameter(Warp& w, const Op& op) {
    const U64 *from = w.row(op.from[0]), *to = w.row(op.from[1]);
    each(w, [&](int l) {
        __builtin_memcpy(reinterpret_cast<void*>(to[l] + static_cast<U64>(op.offset)),
                         reinterpret_cast<const void*>(from[l] + static_cast<U64>(op.offset)),
                         op.bytes);
    });
}
// Warps run on several threads, so atomics are those of the host.
template <class T, class F>
void atomic(Warp& w, const Op& op) {
    U64* to = op.to[0] >= 0 ? w.row(op.to[0]) : nullptr;
    const U64 *address = w.row(op.from[0]), *operand = w.row(op.from[1]);
    each(w, [&](int l) {
        const U64 where = address[l] + static_cast<U64>(op.offset);
        check(w, where, sizeof(T), true);
        T* p = reinterpret_cast<T*>(where);
        T before = __atomic_load_n(p, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(p, &before, F::of(before, get<T>(operand[l])), false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
        if (to != nullptr) to[l] = put<T>(before);
    });
    count_sectors(w, address, op.offset, sizeof(T), true);
}

// ---- Between lanes ------------------------------------------------------------------------------

void require_lanes(const Warp& w, U64 mask) {
    if ((static_cast<U32>(mask) & w.alive) != w.active)
        throw std::runtime_error("an instruction of a warp without all of its lanes");
}
enum class Way : std::uint8_t { butterfly, up, down, index };
template <Way What>
void shuffle(Warp& w, const Op& op) {
    const U64 *value = w.row(op.from[0]), *distance = w.row(op.from[1]), *clamp = w.row(op.from[2]);
    U64 before[lanes];
    std::copy(value, value + lanes, before);
    each(w, [&](int l) { require_lanes(w, w.row(op.from[3])[l]); });
    each(w, [&](int l) {
        const int limit = static_cast<int>(clamp[l] & 31),
                  group = static_cast<int>(clamp[l] >> 8 & 31),
                  n = static_cast<int>(distance[l] & 31), most = (l & group) | (limit & ~group),
                  least = l & group;
        int from = What == Way::butterfly ? l ^ n
                   : What == Way::up      ? l - n
                   : What == Way::down    ? l + n
                                          : least | (n & ~group);
        const bool inside = What == Way::up ? from >= most : from <= most;
        if (!inside) from = l;
        if ((w.active >> from & 1) == 0)
            throw std::runtime_error("a shuffle from a lane that does not take part");
        w.row(op.to[0])[l] = before[from] & 0xFFFFFFFFu;
        if (op.to[1] >= 0) w.row(op.to[1])[l] = inside;
    });
}
template <int What>  // 0: all, 1: any, 2: ballot
void vote(Warp& w, const Op& op) {
    const U64* p = w.row(op.from[0]);
    U32 chosen = 0;
    each(w, [&](int l) {
        require_lanes(w, w.row(op.from[1])[l]);
        chosen |= static_cast<U32>(p[l] & 1) << l;
    });
    each(w, [&](int l) {
        w.row(op.to[0])[l] = What == 2 ? chosen : What == 1 ? chosen != 0 : chosen == w.active;
    });
}
template <class T, class F>
void reduce(Warp& w, const Op& op) {
    const U64* value = w.row(op.from[0]);
    bool is_first = true;
    T all{};
    each(w, [&](int l) {
        require_lanes(w, w.row(op.from[1])[l]);
        all = is_first ? get<T>(value[l]) : F::of(all, get<T>(value[l]));
        is_first = false;
    });
    each(w, [&](int l) { w.row(op.to[0])[l] = put<T>(all); });
}
void active_mask(Warp& w, const Op& op) {
    each(w, [&](int l) { w.row(op.to[0])[l] = w.active; });
}
void nothing(Warp&, const Op&) {}
void add_warps(Table& t) {
    const Class c = Class::shuffle;
    t["shfl.bfly.b32"] = {shuffle<Way::butterfly>, c};
    t["shfl.up.b32"] = {shuffle<Way::up>, c};
    t["shfl.down.b32"] = {shuffle<Way::down>, c};
    t["shfl.idx.b32"] = {shuffle<Way::index>, c};
    t["vote.all.pred"] = {vote<0>, c};
    t["vote.any.pred"] = {vote<1>, c};
    t["vote.ballot.b32"] = {vote<2>, c};
    for_types<S32, U32>([&]<class T>() {
        t["redux.min" + suffix<T>()] = {reduce<T, Min>, c};
        t["redux.max" + suffix<T>()] = {reduce<T, Max>, c};
        t["redux.add" + suffix<T>()] = {reduce<T, Add>, c};
    });
    t["redux.or.b32"] = {reduce<U32, Or>, c};
    t["redux.and.b32"] = {reduce<U32, And>, c};
    t["activemask.b32"] = {active_mask, c};
    t["bar.warp"] = {nothing, c};
}
}  // namespace

void add_memory(Table& t) {
    for (const char* type : {".b8", ".u8", ".s8", ".b16", ".u16", ".s16", ".b32", ".u32", ".s32",
                             ".f32", ".b64", ".u64", ".s64", ".f64"}) {
        t[std::string("ld") + type] = {load, Class::load};
        t[std::string("st") + type] = {store, Class::store};
    }
    for_types<S32, U32, S64, U64>([&]<class T>() {
        for (const char* name : {"atom", "red"}) {
            t[name + std::string(".min") + suffix<T>()] = {atomic<T, Min>, Class::store};
            t[name + std::string(".max") + suffix<T>()] = {atomic<T, Max>, Class::store};
            t[name + std::string(".add") + suffix<T>()] = {atomic<T, Add>, Class::store};
        }
    });
    for (const char* name : {"atom.or.b32", "red.or.b32"})
        t[name] = {atomic<U32, Or>, Class::store};
    t["cvta.u64"] = {compute<Copy, U64, U64>, Class::free};
    t["cvta.to.u64"] = {compute<Copy, U64, U64>, Class::free};
    t["copy"] = {copy_parameter, Class::free};
    add_warps(t);
}

}  // namespace apscope::interpreter
