// cpd reproduces the numbers of the published code of Auto Precision Scaling, including the code's
// deviations from the algorithm; `aps` is the algorithm. The code uses only fp32 arithmetic and the
// cast Q (emulation/schemes/codecs/cpd_cast.h) to a format of e exponent and m significand bits.
//
//      k   = max over w of ceil(fl32(log2(max |fl32(W g_w)|)))
//                                        workers with a NaN are left out; NaN if all have one
//      s   = 2^(E - k)                   an fp32 number, 0 or infinity; E = 2^(e-1) - 1
//      c_w = Q(fl32(s g_w))
//      sum = Q(fl32(sum + c_w))          from 0, in rank order
//      y   = fl32(sum / s)
//
// With kahan=true, the sum is Kahan's, and the result of every operation is cast. An all-zero
// tensor and a tensor with an infinity become NaN. With e = 8, a tensor with k < 0 also becomes
// NaN, because its scale exceeds the fp32 numbers. With aps=false inputs are not cast: the first
// worker's value is cast when it is added to 0. The code sends fp32 numbers for every format, and
// one more fp32 number per tensor for k; the payload and side information count these bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "emulation/arithmetic/kahan.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/cpd_cast.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

struct Cpd {
    int exponent_bits, mantissa_bits;
    bool scales, casts, kahan;

    void cast(std::span<float> row) const { cpd_cast(row, row, exponent_bits, mantissa_bits); }
};

float agreed_scale(const Cpd& cpd, std::span<const RowReader> rows) {
    float k = std::numeric_limits<float>::quiet_NaN();
    const auto workers = static_cast<float>(rows.size());
    for (const RowReader& row : rows) {
        float largest = row.size == 0 ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
        for_runs(row, std::max<std::size_t>(row.size, 1),
                 [&](std::size_t, std::span<const double> part) {
                     for (const double x : part) {
                         const float magnitude = std::abs(static_cast<float>(x) * workers);
                         if (std::isnan(largest) || magnitude <= largest) continue;  // a NaN stays
                         largest = magnitude;
                     }
                 });
        k = std::fmax(k, cpd_exponent(largest));
    }
    const float shift = static_cast<float>((1 << (cpd.exponent_bits - 1)) - 1) - k;
    if (!std::isfinite(shift))
        return std::isnan(shift) ? shift
               : shift > 0.0f    ? std::numeric_limits<float>::infinity()
                                 : 0.0f;
    return std::ldexp(1.0f, static_cast<int>(shift));
}

void encode(const RowPiece& p, const Cpd& cpd, Message& m) {
    const auto scale = static_cast<float>(p.theta.common_scale());
    const std::span<const double> x = p.x;
    thread_local std::vector<float> codes;
    codes.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = static_cast<float>(x[i]) * scale;
    if (cpd.casts) cpd.cast(codes);
    m.prepare(x.size(), true, false);
    for (std::size_t i = 0; i < x.size(); ++i) {
        m.codes[i] = codes[i];
        m.values[i] = codes[i] / scale;
    }
    m.payload_bits = 32 * x.size();
    m.side_bits = m.tensor_bits = cpd.scales ? 32 : 0;
    if (!p.packs()) return;
    BitWriter bits;
    for (const float code : codes) bits.put(std::bit_cast<std::uint32_t>(code), 32);
    m.payload = bits.take();
}

// Adds the codes in rank order and casts every sum or, with `kahan`, the result of every operation
// of Kahan's summation; then divides by the scale.
void add(const SentPieces& s, const Cpd& cpd, Row& sum) {
    const auto scale = static_cast<float>(s.theta.common_scale());
    const std::size_t n = s.messages.at(0).codes.size();
    thread_local std::vector<float> total, lost, y, next;
    for (std::vector<float>* row : {&total, &lost, &y, &next}) row->assign(n, 0.0f);
    for (const Message& m : s.messages) {
        if (!cpd.kahan) {
            for (std::size_t i = 0; i < n; ++i) total[i] += static_cast<float>(m.codes[i]);
            cpd.cast(total);
            continue;
        }
        kahan_add(m.codes, total, lost, y, next,
                  [&](std::vector<float>& out, const auto& a, int sign, const std::vector<float>& b,
                      int) {
                      for (std::size_t i = 0; i < n; ++i)
                          out[i] = sign < 0 ? static_cast<float>(a[i]) - b[i]
                                            : static_cast<float>(a[i]) + b[i];
                      cpd.cast(out);
                  });
        total.swap(next);
    }
    sum.resize(n);
    for (std::size_t i = 0; i < n; ++i) sum[i] = total[i] / scale;
}

SchemeParts cpd_scheme(const Cpd& cpd, std::string grid) {
    SchemeParts scheme;
    scheme.grid = std::move(grid);
    scheme.topology = cpd.kahan ? "sequential+kahan" : "sequential";
    scheme.encoding.sees_special = true;
    scheme.transport.agreed_bits = all_side_bits;
    scheme.choice.select = [cpd](const Selection& s) {
        const float scale = cpd.scales ? agreed_scale(cpd, s.rows) : 1.0f;
        Parameters theta;
        theta.scale = scale;
        if (scale > 0.0f && std::isfinite(scale)) theta.scale_exponent = std::ilogb(scale);
        return theta;
    };
    scheme.encoding.encode = [cpd](const RowPiece& p, Message& m) { encode(p, cpd, m); };
    scheme.encoding.reduce = [cpd](const SentPieces& s, Row& sum) { add(s, cpd, sum); };
    return scheme;
}

}  // namespace

SchemeDefinition cpd_definition() {
    return {
        .class_name = "CPD",
        .summary = "the published code of APS, including its deviations from the algorithm",
        .source = "the code drcut/CPD: CPDtorch/utils/dist_util.py, quant_cuda/float_kernel.cu",
        .needs = "gradients",
        .takes_format = true,
        .keys =
            {{"aps", "true", "false: no scale, and inputs are not cast"},
             {"kahan", "false", "whether the sum is Kahan's, every operation cast"},
             {"input_cast", "as_aps",
              "as_aps: cast before sending if and only if scaled, as the code does; true: always"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            constexpr std::array<std::string_view, 2> casts{"as_aps", "true"};
            const FloatFormat& f = *arguments.format;
            if (f.exponent_bits < 2 || f.exponent_bits > 8 || f.mantissa_bits > 22 ||
                f != make_format(f.exponent_bits, f.mantissa_bits)) {
                throw std::invalid_argument("format '" + f.name() +
                                            "' is not a format of CPD: use one by IEEE 754's rules "
                                            "with 2 to 8 exponent and 0 "
                                            "to 22 significand bits, such as e5m2");
            }
            const bool scales = arguments.flag("aps");
            const Cpd cpd{f.exponent_bits, f.mantissa_bits, scales,
                          scales || arguments.choice("input_cast", casts) == "true",
                          arguments.flag("kahan")};
            return cpd_scheme(cpd, f.name());
        }};
}

}  // namespace apscope::detail
