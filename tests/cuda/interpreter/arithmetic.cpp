// Arithmetic, comparisons, conversions and moves.
#include "operations.h"

namespace apscope::interpreter {

namespace {

// ---- Comparisons ----------------------------------------------------------------------------

template <class T, class F>
void compare(Warp& w, const Op& op) {
    U64* to = w.row(op.to[0]);
    U64* other = op.to[1] >= 0 ? w.row(op.to[1]) : nullptr;
    const U64 *a = w.row(op.from[0]), *b = w.row(op.from[1]);
    each(w, [&](int l) {
        const bool holds = F::of(get<T>(a[l]), get<T>(b[l]));
        to[l] = holds;
        if (other != nullptr) other[l] = !holds;
    });
}
#define APSCOPE_COMPARISON(Name, condition) \
    struct Name {                           \
        template <class T>                  \
        static bool of(T a, T b) {          \
            return condition;               \
        }                                   \
    };
APSCOPE_COMPARISON(Equal, a == b)
APSCOPE_COMPARISON(Different, a<b || a> b)
APSCOPE_COMPARISON(Less, a < b)
APSCOPE_COMPARISON(LessEqual, a <= b)
APSCOPE_COMPARISON(Greater, a > b)
APSCOPE_COMPARISON(GreaterEqual, a >= b)
APSCOPE_COMPARISON(EqualOrNan, !(a < b || a > b))
APSCOPE_COMPARISON(DifferentOrNan, !(a == b))
APSCOPE_COMPARISON(LessOrNan, !(a >= b))
APSCOPE_COMPARISON(LessEqualOrNan, !(a > b))
APSCOPE_COMPARISON(GreaterOrNan, !(a <= b))
APSCOPE_COMPARISON(GreaterEqualOrNan, !(a < b))
APSCOPE_COMPARISON(Numbers, a == a && b == b)
APSCOPE_COMPARISON(AnyNan, a != a || b != b)
#undef APSCOPE_COMPARISON

// ---- Carries --------------------------------------------------------------------------------

// add, sub or mad with the carry read and written. A difference is a + ~b + carry: its carry is 1
// where nothing is borrowed.
enum class Carry : std::uint8_t { add, sub, mad_low, mad_high };
template <class T, Carry What, bool Reads, bool Writes>
void carry(Warp& w, const Op& op) {
    using Unsigned128 = U128;
    U64* to = w.row(op.to[0]);
    const U64 *a = w.row(op.from[0]), *b = w.row(op.from[1]);
    const U64* c = op.from[2] >= 0 ? w.row(op.from[2]) : nullptr;
    each(w, [&](int l) {
        const U64 x = get<T>(a[l]), y = get<T>(b[l]), in = Reads ? w.carry >> l & 1 : 0;
        Unsigned128 result = 0;
        if constexpr (What == Carry::add) result = Unsigned128{x} + y + in;
        else if constexpr (What == Carry::sub)
            result = Unsigned128{x} + static_cast<T>(~y) + (Reads ? in : 1);
        else {
            const Unsigned128 product = Unsigned128{x} * y;
            const auto part =
                static_cast<T>(What == Carry::mad_low ? product : product >> 8 * sizeof(T));
            result = Unsigned128{part} + get<T>(c[l]) + in;
        }
        to[l] = put<T>(static_cast<T>(result));
        if constexpr (Writes) {
            const auto out = static_cast<U32>(result >> 8 * sizeof(T) & 1);
            w.carry = (w.carry & ~(1u << l)) | out << l;
        }
    });
}

// ---- Packing ----------------------------------------------------------------------------------

// mov.b64 {a, b}, c and mov.b64 c, {a, b}: parts of equal size, the first the lowest.
void move(Warp& w, const Op& op) {
    const int bits = op.bytes * 8;
    if (op.to[1] >= 0) {
        const int count = op.to[3] >= 0 ? 4 : 2, part = bits / count;
        const U64* from = w.row(op.from[0]);
        each(w, [&](int l) {
            const U64 x = from[l];
            for (int k = 0; k < count; ++k)
                w.row(op.to[k])[l] = x >> part * k & ((U64{1} << part) - 1);
        });
        return;
    }
    U64* to = w.row(op.to[0]);
    if (op.from[1] >= 0) {
        const int count = op.from[3] >= 0 ? 4 : 2, part = bits / count;
        each(w, [&](int l) {
            U64 x = 0;
            for (int k = 0; k < count; ++k)
                x |= (w.row(op.from[k])[l] & ((U64{1} << part) - 1)) << part * k;
            to[l] = x;
        });
        return;
    }
    const U64* from = w.row(op.from[0]);
    const U64 ones = bits == 64 ? ~U64{0} : (U64{1} << bits) - 1;
    each(w, [&](int l) { to[l] = from[l] & ones; });
}
void add_integers(Table& t) {
    for_types<S16, U16, S32, U32, S64, U64>([&]<class T>() {
        const auto put_in = [&](const char* name, Run run, Class cost) {
            t[name + suffix<T>()] = {run, cost};
        };
        const Class c = cost_of<T>();
        put_in("add", compute<Add, T, T, T>, c);
        put_in("sub", compute<Sub, T, T, T>, c);
        put_in("mul.lo", compute<Mul, T, T, T>, Class::multiply);
        put_in("mul.hi", compute<MulHigh, T, T, T>, Class::multiply);
        put_in("mad.lo", compute<Mad, T, T, T, T>, Class::multiply);
        put_in("mad.hi", compute<MadHigh, T, T, T, T>, Class::multiply);
        if constexpr (sizeof(T) < 8) {
            put_in("mul.wide", compute<MulWide, Wide<T>, T, T>, Class::multiply);
            put_in("mad.wide", compute<MadWide, Wide<T>, T, T, Wide<T>>, Class::multiply);
        }
        put_in("div", compute<Div, T, T, T>, Class::division);
        put_in("rem", compute<Rem, T, T, T>, Class::division);
        put_in("neg", compute<Neg, T, T>, c);
        put_in("abs", compute<Abs, T, T>, c);
        put_in("min", compute<Min, T, T, T>, c);
        put_in("max", compute<Max, T, T, T>, c);
        put_in("shr", compute<ShiftRight, T, T, U32>, c);
        put_in("selp", compute<Select, T, T, T, bool>, c);
        put_in("mov", move, Class::free);
        put_in("bfe", compute<BitExtract, T, T, U32, U32>, c);
    });
    for_types<U16, U32, U64>([&]<class T>() {
        const std::string bits = ".b" + std::to_string(8 * sizeof(T));
        const Class c = cost_of<T>();
        const auto put_in = [&](const char* name, Run run, Class cost) {
            t[name + bits] = {run, cost};
        };
        put_in("and", compute<And, T, T, T>, c);
        put_in("or", compute<Or, T, T, T>, c);
        put_in("xor", compute<Xor, T, T, T>, c);
        put_in("not", compute<Not, T, T>, c);
        put_in("shl", compute<ShiftLeft, T, T, U32>, c);
        put_in("shr", compute<ShiftRight, T, T, U32>, c);
        put_in("selp", compute<Select, T, T, T, bool>, c);
        put_in("mov", move, Class::free);
        if constexpr (sizeof(T) >= 4) {
            put_in("bfi", compute<BitInsert, T, T, T, U32, U32>, c);
            put_in("clz", compute<LeadingZeros, U32, T>, c);
            put_in("popc", compute<Population, U32, T>, c);
            put_in("brev", compute<Reverse, T, T>, c);
        }
    });
    const Class c = Class::integer32;
    t["and.pred"] = {compute<And, bool, bool, bool>, c};
    t["or.pred"] = {compute<Or, bool, bool, bool>, c};
    t["xor.pred"] = {compute<Xor, bool, bool, bool>, c};
    t["not.pred"] = {compute<Not, bool, bool>, c};
    t["mov.pred"] = {compute<Copy, bool, bool>, c};
    t["shf.l.wrap.b32"] = {compute<Funnel<true, true>, U32, U32, U32, U32>, c};
    t["shf.l.clamp.b32"] = {compute<Funnel<true, false>, U32, U32, U32, U32>, c};
    t["shf.r.wrap.b32"] = {compute<Funnel<false, true>, U32, U32, U32, U32>, c};
    t["shf.r.clamp.b32"] = {compute<Funnel<false, false>, U32, U32, U32, U32>, c};
    t["prmt.b32"] = {compute<Permute, U32, U32, U32, U32>, c};
    t["lop3.b32"] = {compute<Lop3, U32, U32, U32, U32, U32>, c};
}

template <class T>
void add_carries(Table& t, Class c) {
    for (const char* sign : {".u", ".s"}) {
        const std::string type = sign + std::to_string(8 * sizeof(T));
        t["add.cc" + type] = {carry<T, Carry::add, false, true>, c};
        t["addc" + type] = {carry<T, Carry::add, true, false>, c};
        t["addc.cc" + type] = {carry<T, Carry::add, true, true>, c};
        t["sub.cc" + type] = {carry<T, Carry::sub, false, true>, c};
        t["subc" + type] = {carry<T, Carry::sub, true, false>, c};
        t["subc.cc" + type] = {carry<T, Carry::sub, true, true>, c};
        t["mad.lo.cc" + type] = {carry<T, Carry::mad_low, false, true>, Class::multiply};
        t["madc.lo" + type] = {carry<T, Carry::mad_low, true, false>, Class::multiply};
        t["madc.lo.cc" + type] = {carry<T, Carry::mad_low, true, true>, Class::multiply};
        t["mad.hi.cc" + type] = {carry<T, Carry::mad_high, false, true>, Class::multiply};
        t["madc.hi" + type] = {carry<T, Carry::mad_high, true, false>, Class::multiply};
        t["madc.hi.cc" + type] = {carry<T, Carry::mad_high, true, true>, Class::multiply};
    }
}

void add_floats(Table& t) {
    for_types<float, double>([&]<class T>() {
        const auto put_in = [&](const char* name, Run run, Class cost) {
            t[name + suffix<T>()] = {run, cost};
        };
        const Class c = cost_of<T>();
        put_in("add", compute<Add, T, T, T>, c);
        put_in("sub", compute<Sub, T, T, T>, c);
        put_in("mul", compute<Mul, T, T, T>, c);
        put_in("fma", compute<Fma, T, T, T, T>, c);
        put_in("min", compute<Min, T, T, T>, c);
        put_in("max", compute<Max, T, T, T>, c);
        put_in("neg", compute<Neg, T, T>, c);
        put_in("abs", compute<Abs, T, T>, c);
        put_in("div", compute<Div, T, T, T>, Class::division);
        put_in("rcp", compute<Reciprocal, T, T>, Class::division);
        put_in("rcp.approx", compute<Reciprocal, T, T>, Class::conversion);
        put_in("sqrt", compute<Sqrt, T, T>, Class::division);
        put_in("selp", compute<Select, U64, U64, U64, bool>,
               sizeof(T) == 8 ? Class::integer64 : Class::integer32);
        put_in("mov", move, Class::free);
    });
    t["fma.rm.f32"] = {compute<DirectedFma<FE_DOWNWARD>, float, float, float, float>, Class::fp32};
    t["fma.rp.f32"] = {compute<DirectedFma<FE_UPWARD>, float, float, float, float>, Class::fp32};
    t["copysign.f32"] = {compute<CopySign, float, float, float>, Class::integer32};
}

void add_comparisons(Table& t) {
    const auto all = [&]<class T>(const std::string& type, Class c) {
        const auto put_in = [&](const char* name, Run run) {
            t["setp." + std::string(name) + type] = {run, c};
        };
        put_in("eq", compare<T, Equal>);
        put_in("ne", compare<T, Different>);
        put_in("lt", compare<T, Less>);
        put_in("le", compare<T, LessEqual>);
        put_in("gt", compare<T, Greater>);
        put_in("ge", compare<T, GreaterEqual>);
        if constexpr (std::is_floating_point_v<T>) {
            put_in("equ", compare<T, EqualOrNan>);
            put_in("neu", compare<T, DifferentOrNan>);
            put_in("ltu", compare<T, LessOrNan>);
            put_in("leu", compare<T, LessEqualOrNan>);
            put_in("gtu", compare<T, GreaterOrNan>);
            put_in("geu", compare<T, GreaterEqualOrNan>);
            put_in("num", compare<T, Numbers>);
            put_in("nan", compare<T, AnyNan>);
        }
    };
    for_types<S16, U16, S32, U32, S64, U64, float, double>(
        [&]<class T>() { all.template operator()<T>(suffix<T>(), cost_of<T>()); });
    all.template operator()<U16>(".b16", Class::integer32);
    all.template operator()<U32>(".b32", Class::integer32);
    all.template operator()<U64>(".b64", Class::integer64);
}

void add_conversions(Table& t) {
    using S8 = std::int8_t;
    using U8 = std::uint8_t;
    for_types<S8, U8, S16, U16, S32, U32, S64, U64>([&]<class To>() {
        for_types<S8, U8, S16, U16, S32, U32, S64, U64>([&]<class From>() {
            const bool is_move =
                sizeof(To) <= sizeof(From) || (std::is_unsigned_v<From> && sizeof(From) >= 4);
            t["cvt" + suffix<To>() + suffix<From>()] = {compute<Convert<To>, To, From>,
                                                        is_move ? Class::free : Class::integer32};
        });
    });
    for_types<S32, U32, S64, U64>([&]<class I>() {
        for_types<float, double>([&]<class T>() {
            t["cvt" + suffix<T>() + suffix<I>()] = {compute<Convert<T>, T, I>, Class::conversion};
            t["cvt.rzi" + suffix<I>() + suffix<T>()] = {compute<Convert<I>, I, T>,
                                                        Class::conversion};
        });
    });
    for_types<S16, U16>([&]<class I>() {
        for_types<float, double>([&]<class T>() {
            t["cvt" + suffix<T>() + suffix<I>()] = {compute<Convert<T>, T, I>, Class::conversion};
        });
    });
    t["cvt.rmi.f64.f64"] = {compute<Floor, double, double>, Class::conversion};
    t["cvt.f64.f32"] = {compute<Convert<double>, double, float>, Class::conversion};
    t["cvt.f32.f64"] = {compute<Convert<float>, float, double>, Class::conversion};
}
}  // namespace

void add_arithmetic(Table& t) {
    add_integers(t);
    add_carries<U32>(t, Class::integer32);
    add_carries<U64>(t, Class::integer64);
    add_floats(t);
    add_comparisons(t);
    add_conversions(t);
}

}  // namespace apscope::interpreter
