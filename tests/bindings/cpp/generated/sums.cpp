// Arithmetic, sums, products of matrices and all-reduces, against the same on one number or column.
#include <optional>

#include "calls.h"

namespace generated {
namespace {

using namespace apscope;

Rounding rounding(Draw& draw) {
    return {draw.format(), draw.one_in(2) ? Projection{} : draw.projection(), draw.word(),
            draw.threads()};
}

Summation summation(Draw& draw) {
    Summation how{.format = draw.format(), .order = draw.order()};
    if (draw.one_in(3)) how.accumulate = draw.format();
    if (draw.one_in(3)) how.product = draw.format();
    if (draw.one_in(2)) how.projection = draw.projection();
    how.seed = draw.word();
    how.threads = draw.threads();
    return how;
}

bool draws(const Projection& projection) { return is_stochastic(projection.rounding); }

template <class Real>
void operation(Draw& draw) {
    const std::string name =
        draw.near(draw.of<std::string>({"add", "subtract", "multiply", "divide", "sqrt", "fma"}));
    const Rounding how = rounding(draw);
    const std::size_t count = draw.length();
    std::vector<Real> operands[3];
    for (std::vector<Real>& operand : operands)
        operand = draw.numbers<Real>(draw.one_in(4) ? 1 : draw.one_in(30) ? count + 1 : count);
    const auto& [a, b, c] = operands;
    std::vector<Real> out(count);
    arithmetic(name, a, b, c, out, how);
    const auto of = [](const std::vector<Real>& x, std::size_t i) {
        return x.empty() ? Real{} : x[x.size() == 1 ? 0 : i];
    };
    if (!draws(how.projection)) {
        for (int tries = 0; tries < 20 && count != 0; ++tries) {
            const std::size_t i = draw.below(count);
            if (std::max({a.size(), b.size(), c.size()}) > count) break;  // ignored operands
            require(same_number(out[i], apply(name, of(a, i), of(b, i), of(c, i), how)),
                    name + " of an array and of one number, element " + std::to_string(i));
        }
    }
    std::vector<Real>& place = operands[draw.below(3)];
    if (place.size() == count) {  // one of the operands receives the result
        arithmetic(name, a, b, c, place, how);
        require(same(place, out), name + " in the place of an operand");
    }
}

void operations(Draw& draw) { draw.one_in(2) ? operation<float>(draw) : operation<double>(draw); }

template <class Real>
void numbers(Draw& draw) {
    const Rounding how = rounding(draw);
    const Real a = draw.number<Real>(), b = draw.number<Real>(), c = draw.number<Real>();
    require(same_number(add(a, b, how), apply("add", a, b, c, how)), "add");
    require(same_number(subtract(a, b, how), apply("subtract", a, b, c, how)), "subtract");
    require(same_number(multiply(a, b, how), apply("multiply", a, b, c, how)), "multiply");
    require(same_number(divide(a, b, how), apply("divide", a, b, c, how)), "divide");
    require(same_number(apscope::sqrt(a, how), apply("sqrt", a, b, c, how)), "sqrt");
    require(same_number(apscope::fma(a, b, c, how), apply("fma", a, b, c, how)), "fma");
}

void one_number(Draw& draw) { draw.one_in(2) ? numbers<float>(draw) : numbers<double>(draw); }

template <class Real>
void rows(Draw& draw) {
    const Summation how = summation(draw);
    const std::size_t terms = draw.integer<std::size_t>(0, 30),
                      columns = draw.one_in(9) ? 0 : draw.below(40);
    const std::size_t count = terms < 1000 ? terms * columns : draw.below(40);
    std::vector<Real> x = draw.numbers<Real>(draw.one_in(30) ? count + 1 : count), out(columns);
    sum(x, terms, out, how);
    if (!draws(how.projection) && columns != 0 && terms < 1000) {
        const std::size_t column = draw.below(columns);
        std::vector<Real> alone(terms);
        for (std::size_t k = 0; k < terms; ++k) alone[k] = x[k * columns + column];
        require(same_number(out[column], sum(alone, how)), "a column of a sum, and alone");
    }
    if (terms > 0 && terms < 1000 && columns > 0) {
        sum(x, terms, std::span(x).first(columns), how);
        require(same(std::span(x).first(columns), out), "a sum in the place of its first row");
        if (terms > 1)
            require(refused([&] { sum(x, terms, std::span(x).last(columns), how); }),
                    "a sum in the place of its last row");
    }
}

void column_sums(Draw& draw) { draw.one_in(2) ? rows<float>(draw) : rows<double>(draw); }

template <class Real>
void product(Draw& draw) {
    Summation how = summation(draw);
    MatrixSizes sizes;
    for (std::size_t* size : {&sizes.rows, &sizes.terms, &sizes.columns, &sizes.batches})
        *size = draw.one_in(9) ? 0 : draw.integer<std::size_t>(1, draw.one_in(5) ? 30 : 5);
    if (draw.one_in(9)) {
        const auto lengths = draw.impossible_shape();
        sizes = {lengths[0], lengths[1], lengths.size() > 2 ? lengths[2] : draw.below(3),
                 draw.below(3)};
    }
    const auto counted = [&](std::size_t first, std::size_t second) {
        const std::size_t count = sizes.batches * first * second;  // may wrap: then it is refused
        return count < 100'000 ? count + (draw.one_in(30) ? 1 : 0) : draw.below(9);
    };
    const std::vector<Real> a = draw.numbers<Real>(counted(sizes.rows, sizes.terms)),
                            b = draw.numbers<Real>(counted(sizes.terms, sizes.columns));
    std::vector<Real> out(counted(sizes.rows, sizes.columns));
    matmul(a, b, out, sizes, how);
    if (draws(how.projection) || out.empty()) return;
    const std::size_t i = draw.below(out.size()), column = i % sizes.columns,
                      row = i / sizes.columns, batch = row / sizes.rows;
    std::vector<Real> left, right;
    for (std::size_t k = 0; k < sizes.terms; ++k) {
        left.push_back(a[row * sizes.terms + k]);
        right.push_back(b[(batch * sizes.terms + k) * sizes.columns + column]);
    }
    require(same_number(out[i], dot(left, right, how)), "an element of a product, and a dot");
}

void products(Draw& draw) { draw.one_in(2) ? product<float>(draw) : product<double>(draw); }

void reduced(Draw& draw) {
    const FloatFormat format = draw.format();
    AllreduceOptions options{.topology = draw.topology()};
    if (draw.one_in(3)) options.projection = draw.projection();
    if (draw.one_in(3)) options.accumulate = draw.format();
    if (draw.one_in(4)) options.hop_rounding = draw.rounding();
    options.input_cast = !draw.one_in(4);
    options.seed = draw.word();
    options.threads = draw.threads();
    const std::size_t workers = draw.integer<std::size_t>(1, draw.one_in(5) ? 70 : 8),
                      length = draw.one_in(9)   ? 0
                               : draw.one_in(9) ? draw.below(9000)
                                                : draw.below(60);
    const bool huge = workers > 1000;
    std::vector<float> in = draw.numbers<float>(huge ? draw.below(9) : workers * length);
    if (draw.one_in(30)) in.push_back(1);
    std::vector<double> out(length);
    allreduce(in, workers, out, format, options);
    if (huge) return;
    std::vector<std::span<const float>> each;
    for (std::size_t w = 0; w < workers; ++w)
        each.push_back(std::span<const float>(in).subspan(w * length, length));
    options.threads = 1;
    require(same(allreduce(each, format, options), out),
            "other bits of separate rows on one thread");
    each.back() = std::span<const float>(in).first(length / 2);
    require(workers == 1 || length == 0 || refused([&] { (void)allreduce(each, format, options); }),
            "rows of different lengths were added");
}

}  // namespace

const std::vector<Entry> sums = {{"arithmetic", operations},
                                 {"apply, add, ...", one_number},
                                 {"sum", column_sums},
                                 {"matmul and dot", products},
                                 {"allreduce", reduced}};

}  // namespace generated
