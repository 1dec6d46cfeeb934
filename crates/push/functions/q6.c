/* TPC-H Q6 on one column page (docs/design/push-pages.md), as an example of a page function in C.
 *
 * page(params, page, scratch, out): params has five i64 as the compiled Q6: first day, day behind
 * the last, least and greatest discount, quantity; scratch gets the number of records and the sum of
 * price x discount. Returns 0. */

typedef unsigned char u8;
typedef unsigned int u32;
typedef int i32;
typedef signed char i8;
typedef long i64;
typedef unsigned long u64;

enum { HEADER = 32, QUANTITY = 4, PRICE = 5, DISCOUNT = 6, SHIPPED = 10 };

void *memset(void *to, int byte, u64 len)
{
    u8 *at = to;
    while (len--)
        *at++ = (u8)byte;
    return to;
}

void *memcpy(void *to, const void *from, u64 len)
{
    u8 *at = to;
    const u8 *source = from;
    while (len--)
        *at++ = *source++;
    return to;
}

static const u8 *column(const u8 *page, int n)
{
    return page + *(const u32 *)(page + HEADER + 8 * n);
}

u64 page(const i64 *params, const u8 *page, u64 *scratch, u8 *out)
{
    const u32 rows = *(const u32 *)(page + 8);
    const i8 *quantity = (const i8 *)column(page, QUANTITY);
    const i32 *price = (const i32 *)column(page, PRICE);
    const i8 *discount = (const i8 *)column(page, DISCOUNT);
    const i32 *shipped = (const i32 *)column(page, SHIPPED);
    i64 sum = 0;
    u64 count = 0;
    (void)out;
    for (u32 row = 0; row < rows; row++) {
        if (shipped[row] < params[0] || shipped[row] >= params[1])
            continue;
        if (discount[row] < params[2] || discount[row] > params[3] || quantity[row] >= params[4])
            continue;
        count++;
        sum += (i64)price[row] * discount[row];
    }
    scratch[0] += count;
    scratch[1] += (u64)sum;
    return 0;
}
