/* What the programs of this folder share: a check that names its line, and a last word. */
#ifndef CHECK_H
#define CHECK_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "jia.h"
#define CHECK(x)                                                                                         \
    do {                                                                                                 \
        if (!(x)) jia_error("%s:%d: rank %d: not so: %s", __FILE__, __LINE__, jiapid, #x);               \
    } while (0)
/* Rank 0 says that all is well, once all are here. */
#define AGREED(name)                                                                                     \
    do {                                                                                                 \
        jia_barrier();                                                                                   \
        if (jiapid == 0) printf("%s agrees with one process\n", name);                                   \
        jia_exit();                                                                                      \
    } while (0)
#endif
