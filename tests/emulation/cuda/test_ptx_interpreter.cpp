// The interpreter of PTX, in which the kernels' proofs run without a GPU: instructions on edge
// values, lanes that part and meet again, calls, and the faults that it finds.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cuda/interpreter/machine.h"

namespace apscope::interpreter {
namespace {

// A kernel of three arrays of 64-bit numbers: %rd1 = a[i], %rd2 = b[i]; stores %rd3 to out[i].
std::string kernel(const std::string& body) {
    return R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 a, .param .u64 b, .param .u64 out)
{
    .reg .pred %p<9>;
    .reg .b16 %rs<9>;
    .reg .b32 %r<9>;
    .reg .f32 %f<9>;
    .reg .f64 %fd<9>;
    .reg .b64 %rd<20>;
    ld.param.u64 %rd10, [a];
    ld.param.u64 %rd11, [b];
    ld.param.u64 %rd12, [out];
    mov.u32 %r8, %tid.x;
    mul.wide.u32 %rd13, %r8, 8; // bytes
    add.s64 %rd10, %rd10, %rd13;
    add.s64 %rd11, %rd11, %rd13;
    add.s64 %rd12, %rd12, %rd13;
    ld.global.u64 %rd1, [%rd10];
    ld.global.u64 %rd2, [%rd11];
    cvt.u32.u64 %r1, %rd1;
    cvt.u32.u64 %r2, %rd2;
    mov.b32 %f1, %r1;
    mov.b32 %f2, %r2;
    mov.b64 %fd1, %rd1;
    mov.b64 %fd2, %rd2;
)" + body + R"(
    st.global.u64 [%rd12], %rd3;
    ret;
}
)";
}

struct Ran {
    std::vector<std::uint64_t> out;
    Counts counts;
};
// One thread an element.
Ran run_ptx(const std::string& ptx, std::vector<std::uint64_t> a, std::vector<std::uint64_t> b) {
    Ran ran{std::vector<std::uint64_t>(a.size(), 77), {}};
    Memory memory;
    void* addresses[] = {a.data(), b.data(), ran.out.data()};
    for (void* address : addresses) memory.add(address, a.size() * 8);
    void* arguments[] = {&addresses[0], &addresses[1], &addresses[2]};
    const Program program = decode(read_functions(ptx), "test");
    ran.counts = run(program, {1, static_cast<std::uint32_t>(a.size()), arguments}, memory);
    return ran;
}
std::vector<std::uint64_t> outputs(const std::string& body, std::vector<std::uint64_t> a,
                                   std::vector<std::uint64_t> b) {
    return run_ptx(kernel(body), std::move(a), std::move(b)).out;
}
std::uint64_t output(const std::string& body, std::uint64_t a, std::uint64_t b) {
    return outputs(body, {a}, {b})[0];
}
std::string fault(const std::string& body) {
    try {
        outputs(body, std::vector<std::uint64_t>(32, 1), std::vector<std::uint64_t>(32, 2));
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "none";
}

std::uint64_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }
const std::string widen = "cvt.u64.u32 %rd3, %r3;";
const std::string widen_f = "mov.b32 %r3, %f3; cvt.u64.u32 %rd3, %r3;";
const std::string widen_p = "selp.u64 %rd3, 1, 0, %p1;";

TEST(PtxInterpreter, IntegersOfEveryWidth) {
    constexpr std::uint64_t big = 0x8000000000000005, x = 0xFFFFFFF0;
    EXPECT_EQ(output("add.s64 %rd3, %rd1, %rd2;", ~0ull, 2), 1u);
    EXPECT_EQ(output("mul.hi.u64 %rd3, %rd1, %rd2;", big, 6), 3u);
    EXPECT_EQ(output("mul.wide.u32 %rd3, %r1, %r2;", x, x), x * x);
    EXPECT_EQ(output("mul.wide.s32 %rd3, %r1, %r2;", x, x), 256u);
    EXPECT_EQ(output("mul.hi.u32 %r3, %r1, %r2;" + widen, x, x), x * x >> 32);
    EXPECT_EQ(output("mad.lo.s32 %r3, %r1, %r2, 7;" + widen, 5, 6), 37u);
    EXPECT_EQ(output("div.s32 %r3, %r1, %r2;" + widen, x, 3), 0xFFFFFFFBu);
    EXPECT_EQ(output("rem.u64 %rd3, %rd1, %rd2;", big, 7), big % 7);
    EXPECT_EQ(output("shl.b32 %r3, %r1, %r2;" + widen, 3, 32), 0u);
    EXPECT_EQ(output("shr.s32 %r3, %r1, %r2;" + widen, x, 99), 0xFFFFFFFFu);
    EXPECT_EQ(output("shr.u64 %rd3, %rd1, %r2;", big, 63), 1u);
    EXPECT_EQ(output("shf.l.wrap.b32 %r3, %r1, %r2, 40;" + widen, 0x12345678, 0xABCDEF00),
              0xCDEF0012u);
    EXPECT_EQ(output("shf.r.wrap.b32 %r3, %r1, %r2, 8;" + widen, 0x12345678, 0xABCDEF00),
              0x00123456u);
    EXPECT_EQ(output("bfi.b64 %rd3, %rd1, %rd2, 32, 32;", 5, 9), 5ull << 32 | 9);
    EXPECT_EQ(output("bfe.u32 %r3, %r1, 4, 8;" + widen, 0xABCD, 0), 0xBCu);
    EXPECT_EQ(output("bfe.s32 %r3, %r1, 4, 8;" + widen, 0xABCD, 0), 0xFFFFFFBCu);
    EXPECT_EQ(output("prmt.b32 %r3, %r1, %r2, 17185;" + widen, 0x44332211, 0x88776655),
              0x55443322u);
    EXPECT_EQ(output("clz.b64 %r3, %rd1;" + widen, 1, 0), 63u);
    EXPECT_EQ(output("popc.b32 %r3, %r1;" + widen, 0xF0F1, 0), 9u);
    EXPECT_EQ(output("lop3.b32 %r3, %r1, %r2, 15, 0x96;" + widen, 12, 10), 12u ^ 10u ^ 15u);
    EXPECT_EQ(output("cvt.s64.s32 %rd3, %r1;", x, 0), 0xFFFFFFFFFFFFFFF0u);
    EXPECT_EQ(output("cvt.u16.u32 %rs1, %r1; cvt.u64.u16 %rd3, %rs1;", 0x12345, 0), 0x2345u);
    EXPECT_EQ(output("mov.b64 {%r3, %r4}, %rd1; mov.b64 %rd3, {%r4, %r3};", 1ull << 32 | 2, 0),
              2ull << 32 | 1);
}

TEST(PtxInterpreter, CarriesOfSumsDifferencesAndProducts) {
    constexpr std::uint64_t a = 0xFFFFFFFF00000001, b = 0x1FFFFFFFF;
    const std::string halves = "mov.b64 {%r3, %r4}, %rd1; mov.b64 {%r5, %r6}, %rd2;";
    const std::string join = "mov.b64 %rd3, {%r3, %r4};";
    EXPECT_EQ(output(halves + "add.cc.u32 %r3, %r3, %r5; addc.u32 %r4, %r4, %r6;" + join, a, b),
              a + b);
    EXPECT_EQ(output(halves + "sub.cc.u32 %r3, %r3, %r5; subc.u32 %r4, %r4, %r6;" + join, a, b),
              a - b);
    EXPECT_EQ(output(halves + "mad.lo.cc.u32 %r3, %r3, %r5, %r6; madc.hi.u32 %r4, %r3, 0, 0;" +
                         "cvt.u64.u32 %rd3, %r4;",
                     0xFFFFFFFF, 0x1FFFFFFFF),
              0u);
    // After a difference the carry is 1 if nothing was borrowed.
    const std::string carry = "sub.cc.u32 %r3, %r1, %r2; addc.u32 %r3, 0, 0;" + widen;
    EXPECT_EQ(output(carry, 5, 5), 1u);
    EXPECT_EQ(output(carry, 5, 6), 0u);
}

TEST(PtxInterpreter, FloatingPointAndItsNans) {
    const float nan = std::bit_cast<float>(0xFFC12345u), inf = INFINITY;
    constexpr std::uint64_t canonical = 0x7FFFFFFF;
    EXPECT_EQ(output("add.rn.f32 %f3, %f1, %f2;" + widen_f, bits(1.0f), bits(0x1p-24f)),
              bits(1.0f));
    EXPECT_EQ(output("add.rn.f32 %f3, %f1, %f2;" + widen_f, bits(nan), bits(1.0f)), canonical);
    EXPECT_EQ(output("sub.rn.f32 %f3, %f1, %f2;" + widen_f, bits(inf), bits(inf)), canonical);
    EXPECT_EQ(output("mov.f32 %f3, %f1;" + widen_f, bits(nan), 0), bits(nan));
    EXPECT_EQ(output("selp.f32 %f3, %f1, %f2, 1;" + widen_f, bits(nan), 0), bits(nan));
    EXPECT_EQ(output("min.f32 %f3, %f1, %f2;" + widen_f, bits(nan), bits(2.0f)), bits(2.0f));
    EXPECT_EQ(output("max.f32 %f3, %f1, %f2;" + widen_f, bits(-0.0f), bits(0.0f)), 0u);
    EXPECT_EQ(
        output("fma.rn.f64 %fd3, %fd1, %fd2, %fd1; mov.b64 %rd3, %fd3;", bits(3.0), bits(2.0)),
        bits(9.0));
    for (const float sign : {1.0f, -1.0f}) {
        const auto fma = [&](const std::string& direction) {
            return output("fma." + direction + ".f32 %f3, %f1, %f2, %f1;" + widen_f,
                          bits(sign * 0x1p-30f), bits(0x1.000002p30f));
        };
        EXPECT_EQ(fma(sign > 0 ? "rm" : "rp"), bits(sign * 0x1.000002p0f));
        EXPECT_EQ(fma(sign > 0 ? "rp" : "rm"), bits(sign * 0x1.000004p0f));
    }
    EXPECT_EQ(output("copysign.f32 %f3, %f1, %f2;" + widen_f, bits(-0.0f), bits(2.0f)),
              bits(-2.0f));
    EXPECT_EQ(output("cvt.rn.f32.f64 %f3, %fd1;" + widen_f, bits(1 + 0x1p-24 + 0x1p-50), 0),
              bits(1 + 0x1p-23f));
    EXPECT_EQ(output("cvt.rn.f32.f64 %f3, %fd1;" + widen_f, bits(double{nan}), 0), canonical);
    EXPECT_EQ(output("cvt.f64.f32 %fd3, %f1; mov.b64 %rd3, %fd3;", bits(0x1p-149f), 0),
              bits(0x1p-149));
    EXPECT_EQ(output("cvt.rzi.s32.f32 %r3, %f1;" + widen, bits(-2.7f), 0), 0xFFFFFFFEu);
    EXPECT_EQ(output("cvt.rzi.s32.f32 %r3, %f1;" + widen, bits(3e9f), 0), 0x7FFFFFFFu);
    EXPECT_EQ(output("cvt.rzi.s32.f32 %r3, %f1;" + widen, bits(nan), 0), 0u);
    EXPECT_EQ(output("cvt.rn.f32.s32 %f3, %r1;" + widen_f, 0xFFFFFFFF, 0), bits(-1.0f));
    EXPECT_EQ(output("cvt.rmi.f64.f64 %fd3, %fd1; mov.b64 %rd3, %fd3;", bits(-2.5), 0), bits(-3.0));
    EXPECT_EQ(output("div.rn.f32 %f3, %f1, %f2;" + widen_f, bits(1.0f), bits(3.0f)),
              bits(1.0f / 3.0f));
    EXPECT_EQ(output("setp.lt.f32 %p1, %f1, %f2;" + widen_p, bits(nan), bits(1.0f)), 0u);
    EXPECT_EQ(output("setp.ltu.f32 %p1, %f1, %f2;" + widen_p, bits(nan), bits(1.0f)), 1u);
    EXPECT_EQ(output("setp.neu.f32 %p1, %f1, %f2;" + widen_p, bits(1.0f), bits(1.0f)), 0u);
    EXPECT_EQ(output("setp.num.f32 %p1, %f1, %f2;" + widen_p, bits(nan), bits(1.0f)), 0u);
    EXPECT_EQ(output("add.rn.f32 %f3, %f1, 0f3F800000;" + widen_f, bits(1.0f), 0), bits(2.0f));
    // Another NaN than the host's, which a result must not depend on.
    const std::uint64_t wide =
        output("add.rn.f64 %fd3, %fd1, %fd2; mov.b64 %rd3, %fd3;", bits(double{nan}), bits(1.0));
    EXPECT_NE(wide, bits(double{nan} + 1.0));
    EXPECT_TRUE(std::isnan(std::bit_cast<double>(wide)));
}

// Lane l adds l to its number a[l] times, half of the lanes in another branch; then all meet in a
// shuffle.
TEST(PtxInterpreter, LanesThatPartMeetAgain) {
    const std::string body = R"(
    mov.u64 %rd3, 0;
    mov.u64 %rd4, 0;
$loop:
    setp.ge.u64 %p1, %rd4, %rd1;
    @%p1 bra $done;
    cvt.u64.u32 %rd5, %r8;
    add.s64 %rd3, %rd3, %rd5;
    add.s64 %rd4, %rd4, 1;
    bra.uni $loop;
$done:
    and.b32 %r3, %r8, 1;
    setp.eq.s32 %p2, %r3, 0;
    @!%p2 bra $odd;
    add.s64 %rd3, %rd3, 1000;
    bra.uni $met;
$odd:
    add.s64 %rd3, %rd3, 2000;
$met:
    cvt.u32.u64 %r4, %rd3;
    shfl.sync.bfly.b32 %r5|%p3, %r4, 1, 31, -1;
    cvt.u64.u32 %rd3, %r5;
)";
    std::vector<std::uint64_t> a, b(64, 0);
    for (std::uint64_t l = 0; l < 64; ++l) a.push_back(l * 7 % 11);
    const std::vector<std::uint64_t> out = outputs(body, a, b);
    for (std::uint64_t l = 0; l < 64; ++l) {
        const std::uint64_t other = l ^ 1;
        EXPECT_EQ(out[l], a[other] * other + (other % 2 == 0 ? 1000 : 2000)) << l;
    }
}

TEST(PtxInterpreter, FunctionsLocalMemoryAndTables) {
    const std::string function = R"(
.func (.param .b64 func_retval0) twice(.param .b64 twice_param_0)
{
    .local .align 8 .b8 __local_depot1[16];
    .reg .b64 %SPL;
    .reg .b64 %rd<9>;
    mov.u64 %SPL, __local_depot1;
    ld.param.u64 %rd1, [twice_param_0];
    st.local.u64 [%SPL+8], %rd1;
    ld.local.u64 %rd2, [%SPL+8];
    add.s64 %rd3, %rd2, %rd1;
    st.param.b64 [func_retval0+0], %rd3;
    ret;
}
)";
    const std::string body = R"(
    mov.u64 %rd3, 5;
    setp.lt.u64 %p1, %rd1, 2;
    @%p1 bra $after;
    {
    .param .b64 param0;
    st.param.b64 [param0+0], %rd1;
    .param .b64 retval0;
    call.uni (retval0),
    twice,
    (
    param0
    );
    ld.param.b64 %rd3, [retval0+0];
    }
$after:
)";
    std::string text = kernel(body);
    text.insert(text.find(".visible"), function);
    EXPECT_EQ(run_ptx(text, {0, 1, 2, 3}, {0, 0, 0, 0}).out,
              (std::vector<std::uint64_t>{5, 5, 4, 6}));
    EXPECT_EQ(outputs(R"(
    ts: .branchtargets $one, $two;
    brx.idx %r1, ts;
$one:
    mov.u64 %rd3, 10;
    bra.uni $end;
$two:
    mov.u64 %rd3, 20;
$end:
)",
                      {0, 1, 0, 1}, {0, 0, 0, 0}),
              (std::vector<std::uint64_t>{10, 20, 10, 20}));
}

TEST(PtxInterpreter, CountsWhatAKernelNeeds) {
    const Ran ran = run_ptx(kernel("add.rn.f64 %fd3, %fd1, %fd2; mov.b64 %rd3, %fd3;"),
                            std::vector<std::uint64_t>(64), std::vector<std::uint64_t>(64));
    EXPECT_EQ(ran.counts.instructions[static_cast<int>(Class::fp64)], 2u);  // two warps
    EXPECT_EQ(ran.counts.instructions[static_cast<int>(Class::load)], 4u);
    EXPECT_GE(ran.counts.stored_sectors * 32, 64u * 8);
    EXPECT_LE(ran.counts.stored_sectors * 32, 64u * 8 + 2 * 32);  // both warps begin in a sector
    EXPECT_EQ(ran.counts.loads_by_bytes[3], 4u);
    EXPECT_EQ(ran.counts.threads, 64u);
}

TEST(PtxInterpreter, FindsFaults) {
    EXPECT_NE(fault("ld.global.u64 %rd3, [%rd10+256];").find("outside"), std::string::npos);
    EXPECT_NE(fault("st.global.u64 [%rd12+-512], %rd1;").find("outside"), std::string::npos);
    EXPECT_NE(fault("ld.global.u64 %rd3, [%rd10+4];").find("misaligned"), std::string::npos);
    EXPECT_NE(fault("ld.global.v2.u64 {%rd3, %rd4}, [%rd10];").find("misaligned"),
              std::string::npos);
    EXPECT_NE(fault("trap;").find("trap"), std::string::npos);
    EXPECT_NE(fault("setp.eq.s32 %p1, %r8, 3; @%p1 bra $a; shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;"
                    "$a: mov.u64 %rd3, 0;")
                  .find("without all of its lanes"),
              std::string::npos);
    EXPECT_NE(fault("add.rn.ftz.f32 %f3, %f1, %f2;").find("flushes"), std::string::npos);
    EXPECT_NE(fault("sin.approx.f32 %f3, %f1;").find("not supported"), std::string::npos);
    EXPECT_EQ(fault("mov.u64 %rd3, 0;"), "none");
}

}  // namespace
}  // namespace apscope::interpreter
