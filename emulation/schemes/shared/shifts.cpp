#include "emulation/schemes/shared/shifts.h"

#include <algorithm>
#include <array>

namespace apscope::detail {

ShiftRule ShiftRule::of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> rules{"ceil", "tight"};
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the definition takes a format
    return {*arguments.format, headroom_of(arguments), arguments.choice("rule", rules) == "tight"};
}

int ShiftRule::shift(double amax, int workers) const {
    if (amax == 0.0) return 0;
    const double counted = std::max(amax, 0x1p-126);
    if (tight) return largest_shift_within(counted, workers, headroom, format.largest());
    return format.emax() - exponent_with_headroom(counted, workers, headroom);
}

int ShiftRule::next(double amax, int workers, int& last, long& run) const {
    const bool known = run > 0;
    if (frozen > 0 && run >= frozen) return last;
    const int before = last, now = shift(amax, workers);
    if (amax != 0.0) {
        run = known && before == now ? run + 1 : 1;
        last = now;
    }
    return delayed && known ? before : now;
}

}  // namespace apscope::detail
