/* Floating-point kernels: `float KERNEL ROUNDS` prints one checksum with all its digits.
 * Contraction into fused operations is switched off by the build, so that every architecture
 * rounds alike. */
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 12345;

static double next(void) {
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / 16777216.0;
}

static double sgemv(int rounds) {
    enum { N = 96 };
    static float a[N][N], x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)next();
        for (int j = 0; j < N; j++)
            a[i][j] = (float)next();
    }
    for (int r = 0; r < rounds * 10; r++)
        for (int i = 0; i < N; i++) {
            float sum = 0;
            for (int j = 0; j < N; j++)
                sum += a[i][j] * x[j];
            y[i] = sum;
            x[i] = x[i] * 0.5f + sum / 128.0f;
        }
    return y[N - 1];
}

static double mandelbrot(int rounds) {
    long inside = 0;
    int side = 24 + 8 * rounds;
    for (int py = 0; py < side; py++)
        for (int px = 0; px < side; px++) {
            double cx = 3.0 * px / side - 2.0, cy = 2.0 * py / side - 1.0, x = 0, y = 0;
            int n = 0;
            while (n < 100 && x * x + y * y < 4.0) {
                double t = x * x - y * y + cx;
                y = 2 * x * y + cy;
                x = t;
                n++;
            }
            inside += n;
        }
    return (double)inside;
}

static double nbody(int rounds) {
    enum { N = 5 };
    double p[N][3], v[N][3], m[N];
    for (int i = 0; i < N; i++) {
        m[i] = next() + 0.1;
        for (int d = 0; d < 3; d++) {
            p[i][d] = next() * 10;
            v[i][d] = next() - 0.5;
        }
    }
    for (int r = 0; r < rounds * 800; r++) {
        for (int i = 0; i < N; i++)
            for (int j = i + 1; j < N; j++) {
                double d[3], square = 0.01;
                for (int k = 0; k < 3; k++) {
                    d[k] = p[i][k] - p[j][k];
                    square += d[k] * d[k];
                }
                double pull = 0.001 / (square * sqrt(square));
                for (int k = 0; k < 3; k++) {
                    v[i][k] -= d[k] * m[j] * pull;
                    v[j][k] += d[k] * m[i] * pull;
                }
            }
        for (int i = 0; i < N; i++)
            for (int k = 0; k < 3; k++)
                p[i][k] += 0.001 * v[i][k];
    }
    return p[0][0] + p[1][1] + p[2][2];
}

static double fft(int rounds) {
    enum { N = 1024 };
    static double re[N], im[N], wr[N / 2], wi[N / 2];
    for (int i = 0; i < N / 2; i++) {
        wr[i] = cos(2 * M_PI * i / N);
        wi[i] = -sin(2 * M_PI * i / N);
    }
    for (int i = 0; i < N; i++) {
        re[i] = next();
        im[i] = 0;
    }
    for (int r = 0; r < rounds * 2; r++) {
        for (int i = 1, j = 0; i < N; i++) {
            int bit = N >> 1;
            for (; j & bit; bit >>= 1)
                j ^= bit;
            j ^= bit;
            if (i < j) {
                double t = re[i];
                re[i] = re[j];
                re[j] = t;
                t = im[i];
                im[i] = im[j];
                im[j] = t;
            }
        }
        for (int len = 2; len <= N; len <<= 1)
            for (int i = 0; i < N; i += len)
                for (int k = 0; k < len / 2; k++) {
                    int w = k * (N / len), a = i + k, b = a + len / 2;
                    double tr = re[b] * wr[w] - im[b] * wi[w], ti = re[b] * wi[w] + im[b] * wr[w];
                    re[b] = re[a] - tr;
                    im[b] = im[a] - ti;
                    re[a] += tr;
                    im[a] += ti;
                }
        for (int i = 0; i < N; i++) {
            re[i] /= 32;
            im[i] /= 32;
        }
    }
    return re[1] + im[N / 3];
}

static double libm(int rounds) {
    double sum = 0;
    for (int i = 1; i < rounds * 3000; i++) {
        double x = i * 0.001;
        sum += sin(x) * exp(-x * 0.01) + log(x) + pow(x, 0.3) + sqrt(x);
    }
    return sum;
}

static double matmul(int rounds) {
    enum { N = 48 };
    static double a[N][N], b[N][N], c[N][N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = next();
            b[i][j] = next();
        }
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                double sum = c[i][j] * 0.5;
                for (int k = 0; k < N; k++)
                    sum += a[i][k] * b[k][j];
                c[i][j] = sum;
            }
    return c[3][7];
}

static double triad(int rounds) {
    enum { N = 4000 };
    static double a[N], b[N], c[N];
    for (int i = 0; i < N; i++) {
        b[i] = next();
        c[i] = next();
    }
    for (int r = 0; r < rounds * 20; r++) {
        for (int i = 0; i < N; i++)
            a[i] = b[i] + 0.75 * c[i];
        b[r % N] = a[(r * 7) % N] * 0.5;
    }
    return a[N / 2];
}

static double linpack(int rounds) {
    enum { N = 64 };
    static double a[N][N], b[N];
    double sum = 0;
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < N; i++) {
            b[i] = next();
            for (int j = 0; j < N; j++)
                a[i][j] = next() + (i == j ? 8.0 : 0.0);
        }
        for (int k = 0; k < N; k++)
            for (int i = k + 1; i < N; i++) {
                double f = a[i][k] / a[k][k];
                for (int j = k; j < N; j++)
                    a[i][j] -= f * a[k][j];
                b[i] -= f * b[k];
            }
        for (int i = N - 1; i >= 0; i--) {
            for (int j = i + 1; j < N; j++)
                b[i] -= a[i][j] * b[j];
            b[i] /= a[i][i];
        }
        sum += b[0];
    }
    return sum;
}

/* The exceptions that are raised, in one order on every architecture. */
static uint64_t raised(void) {
    static const int order[] = {FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW, FE_INEXACT};
    uint64_t bits = 0;
    int flags = fetestexcept(FE_ALL_EXCEPT);
    for (int i = 0; i < 5; i++)
        bits |= (uint64_t)!!(flags & order[i]) << i;
    feclearexcept(FE_ALL_EXCEPT);
    return bits;
}

/* Every operation on operands of every class: a checksum of the flags that each one raises. */
static double flags(int rounds) {
    static const double some[] = {0.0,  -0.0,     1.0,    -3.0,   1.0 / 3, 1e308,  -1e-308,
                                  5e-324, INFINITY, -INFINITY, 1e38, 1e-40, 16777217.0, 4e9};
    enum { N = sizeof some / sizeof *some };
    uint64_t sum = 0;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                volatile double a = some[i] * (1 + r % 3), b = some[j], c;
                volatile float f = (float)some[i], g = (float)some[j], h;
                volatile long n;
                uint64_t bits[10];
                feclearexcept(FE_ALL_EXCEPT);
                c = a + b, bits[0] = raised();
                c = a - b, bits[1] = raised();
                c = a * b, bits[2] = raised();
                c = a / b, bits[3] = raised();
                c = sqrt(a), bits[4] = raised();
                h = f * g, bits[5] = raised();
                h = f / g, bits[6] = raised();
                h = (float)a, bits[7] = raised();
                n = a < b, bits[8] = raised();
                c = fma(a, b, 1.0), bits[9] = raised();
                (void)c, (void)h, (void)n;
                for (int k = 0; k < 10; k++)
                    sum = (sum * 37 + bits[k]) & ((1ull << 52) - 1);
            }
    return (double)sum;
}

static const struct {
    const char *name;
    double (*run)(int rounds);
} kernels[] = {
    {"sgemv", sgemv}, {"mandelbrot", mandelbrot}, {"nbody", nbody}, {"fft", fft},
    {"libm", libm}, {"matmul", matmul}, {"triad", triad}, {"linpack", linpack},
    {"flags", flags},
};

int main(int argc, char **argv) {
    if (argc == 3)
        for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; k++)
            if (!strcmp(argv[1], kernels[k].name)) {
                printf("%s %.17g\n", argv[1], kernels[k].run(atoi(argv[2])));
                return 0;
            }
    fprintf(stderr, "usage: float KERNEL ROUNDS\n");
    return 2;
}
