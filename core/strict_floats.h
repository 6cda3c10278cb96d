// Refuses compiler options that change results. core/bits.h includes this file, so all code that
// computes includes it. No macro tells whether the compiler fuses products into sums
// (-ffp-contract); emulation/machine/simd.cpp tests the machine code when the program starts.
// core/float_environment.h sets the processor's control words.
#pragma once

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) ||                                                            \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ != 0) ||                            \
    (defined(__GCC_IEC_559) && __GCC_IEC_559 == 0)
#error \
    "apscope rounds by IEEE 754, but this compiler option does not; compile without -ffast-math and the options in it"
#endif

#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error \
    "apscope needs sums of float in float and of double in double (FLT_EVAL_METHOD 0); compile with -msse2 -mfpmath=sse"
#endif

#if defined(__CUDACC__) && defined(__USE_FAST_MATH__)
#error "apscope rounds by IEEE 754, but --use_fast_math does not; compile without it"
#endif
