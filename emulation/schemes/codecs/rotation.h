// The rotation of nvfp4: diag(signs) H16 / 4 of every 16 consecutive elements, where H16 is the
// Hadamard matrix in Sylvester's order. It is orthonormal, so rotating back is its transpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/host_device.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// One group, by the operations of hadamard(), in their order.
struct Rotation {
    static constexpr int size = 16;

    APSCOPE_HD static constexpr bool is_negative(int l) { return (0xD7E8u >> l & 1) != 0; }
    APSCOPE_HD static void forward(double (&v)[size]) {
        multiply_signs(v);
        transform(v);
    }
    APSCOPE_HD static void back(double (&v)[size]) {
        transform(v);
        multiply_signs(v);
    }
    // Each rotated-back element is the sum of the 16 elements of its group, each times 1/4 or -1/4.
    APSCOPE_HD static double variance_back(const double (&v)[size]) {
        double sum = 0.0;
        for (int l = 0; l < size; ++l) sum += v[l];
        return sum / size;
    }

private:
    APSCOPE_HD static void multiply_signs(double (&v)[size]) {
        for (int l = 0; l < size; ++l) v[l] = is_negative(l) ? -v[l] : v[l];
    }
    APSCOPE_HD static void transform(double (&v)[size]) {
        for (int half = 1; half < size; half *= 2) {
            for (int l = 0; l < size; ++l) {
                if ((l & half) != 0) continue;
                const double a = v[l], b = v[l + half];
                v[l] = a + b;
                v[l + half] = a - b;
            }
        }
        for (int l = 0; l < size; ++l) v[l] *= 0.25;
    }
};

// Every group of a piece of a row, which begins with a group. rotated() pads the last group with
// zeros; the others return the first `elements` elements.
Row rotated(std::span<const double> x);
void rotate_back(Row& rotated, std::size_t elements);
void rotate_variance_back(Row& variance, std::size_t elements);
// The largest magnitude of a row, or of the rotated row. NaNs do not count; infinities count only
// if `infinities` is true.
double amax_of(const RowReader& row, bool rotates, bool infinities);

}  // namespace apscope::detail
