// With the C library, linked statically: what the second level of x86-64 adds. The library chooses
// its functions for text by what the processor says of itself.
#include <math.h>
#include <nmmintrin.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <tmmintrin.h>

static const char text[] = "The quick brown fox jumps over the lazy dog, twice: The quick brown fox";

__attribute__((noinline)) static int position(const char *in, const char *set) {
    __m128i wanted = _mm_loadu_si128((const __m128i *)set);
    for (int at = 0;; at += 16) {
        __m128i part = _mm_loadu_si128((const __m128i *)(in + at));
        int found = _mm_cmpistri(wanted, part, _SIDD_CMP_EQUAL_ANY);
        if (found < 16)
            return at + found;
        if (_mm_cmpistrz(wanted, part, _SIDD_CMP_EQUAL_ANY))
            return -1;
    }
}

int main(void) {
    static char padded[128];
    static const char set[16] = "xyz,";
    memcpy(padded, text, sizeof text);
    printf("level 2: %d\n", __builtin_cpu_supports("x86-64-v2") != 0);
    printf("places %d %d\n", position(padded, set), position("aaaaaaaaaaaaaaaa\0bbbbbbbbbbbbbbbb", set));
    printf("library %zu %zu %d %s\n", strcspn(text, ",;"), strspn(text, "The quick"),
           strcasecmp("Translator", "tRANSLATORS"), strstr(text, "lazy"));
    unsigned long sum = ~0ul;
    for (unsigned n = 0; n < sizeof text; n++)
        sum = _mm_crc32_u8(sum, text[n]);
    sum = _mm_crc32_u64(sum, 0x0123456789abcdef);
    printf("sum %lx, ones %d\n", sum, _mm_popcnt_u32((unsigned)sum));
    volatile double values[6] = {-1.5, 2.5, 0.4999, -0.0, 1e300, 7.0 / 3};
    for (int n = 0; n < 6; n++) {
        volatile double down = floor(values[n]), up = ceil(values[n]), even = rint(values[n]);
        printf("%.17g %.17g %.17g %.17g\n", down, up, even, trunc(values[n]));
    }
    __m128i order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, (char)0x80);
    __m128i turned = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)padded), order);
    char bytes[17] = {0};
    _mm_storeu_si128((__m128i *)bytes, turned);
    printf("turned %s %d\n", bytes + 1, bytes[0]);
    __m128 product = _mm_dp_ps(_mm_set_ps(1, 2, 3, 4), _mm_set_ps(5, 6, 7, 8), 0xf1);
    printf("product %g, equal %d\n", _mm_cvtss_f32(product), _mm_testz_si128(order, _mm_setzero_si128()));
    return 0;
}
