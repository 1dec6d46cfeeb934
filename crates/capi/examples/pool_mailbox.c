/* A mailbox in pooled memory, tried on a pool that forgives nothing. One node writes a message of two
 * lines and then its number; the other takes it when it sees a new number, and answers on a line of
 * its own. Each of the steps that non-coherent memory needs can be left out by name, and is missed.
 *
 *   scripts/install-capi.sh PREFIX
 *   export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
 *   cc crates/capi/examples/pool_mailbox.c $(pkg-config --cflags --libs littoral) -o pool_mailbox
 *   ./pool_mailbox careful
 *   ./pool_mailbox no-write-back     (or no-fence, no-invalidate)
 *
 * Answers 0 when every message arrived whole, 1 when one did not.
 */
#include <stdio.h>
#include <string.h>

#include "littoral.h"

enum { NUMBER_AT = 0, TAKEN_AT = 64, BODY_AT = 128, BODY_WORDS = 16, BYTES = 256 };
enum { MESSAGES = 5000, LOOKS_MAX = 1000 };

struct habits {
    int write_back, fence, invalidate;
};

static void fill(uint64_t *body, uint64_t number)
{
    int i;
    for (i = 0; i < BODY_WORDS; i++)
        body[i] = number * 1000 + (uint64_t)i;
}

static void publish(littoral_pool_view *node, size_t at, uint64_t word)
{
    littoral_pool_store(node, at, &word, 8);
    littoral_pool_write_back(node, at, 8);
    littoral_pool_fence(node);
}

static uint64_t look(littoral_pool_view *node, size_t at)
{
    uint64_t word;
    littoral_pool_invalidate(node, at, 8);
    littoral_pool_load(node, at, &word, 8);
    return word;
}

/* 1 when message `number` was there and whole, 0 when there was none yet, -1 when it was not whole. */
static int take(littoral_pool_view *reader, uint64_t number, const struct habits *h)
{
    uint64_t body[BODY_WORDS], wanted[BODY_WORDS];
    if (look(reader, NUMBER_AT) != number)
        return 0;
    if (h->invalidate)
        littoral_pool_invalidate(reader, BODY_AT, sizeof body);
    littoral_pool_load(reader, BODY_AT, body, sizeof body);
    fill(wanted, number);
    return memcmp(body, wanted, sizeof body) == 0 ? 1 : -1;
}

/* Sends one message; the reader looks after every step of the writer, as it might on another host. */
static int hand_over(littoral_pool_view *writer, littoral_pool_view *reader, uint64_t number,
                     const struct habits *h)
{
    uint64_t body[BODY_WORDS];
    int taken, looks;
    fill(body, number);
    littoral_pool_store(writer, BODY_AT, body, sizeof body);
    if (h->write_back)
        littoral_pool_write_back(writer, BODY_AT, sizeof body);
    if (h->fence)
        littoral_pool_fence(writer);
    littoral_pool_store(writer, NUMBER_AT, &number, 8);
    littoral_pool_write_back(writer, NUMBER_AT, 8);
    taken = take(reader, number, h);
    littoral_pool_fence(writer);
    for (looks = 0; taken == 0 && looks < LOOKS_MAX; looks++)
        taken = take(reader, number, h);
    if (taken != 1)
        return 0;
    publish(reader, TAKEN_AT, number);
    return look(writer, TAKEN_AT) == number;
}

int main(int argc, char **argv)
{
    const char *habit = argc == 2 ? argv[1] : "careful";
    struct habits h;
    littoral_pool *pool = littoral_pool_new(BYTES, 42, 20);
    littoral_pool_view *writer = littoral_pool_view_new(pool, 0);
    littoral_pool_view *reader = littoral_pool_view_new(pool, 1);
    littoral_pool_counts counts;
    uint64_t number = 1;
    h.write_back = strcmp(habit, "no-write-back") != 0;
    h.fence = strcmp(habit, "no-fence") != 0;
    h.invalidate = strcmp(habit, "no-invalidate") != 0;
    while (number <= MESSAGES && hand_over(writer, reader, number, &h))
        number++;
    littoral_pool_view_counts(writer, &counts);
    if (number > MESSAGES)
        printf("%s: %d messages arrived whole; %llu lines were evicted unasked\n", habit, MESSAGES,
               (unsigned long long)counts.evictions);
    else
        printf("%s: message %llu did not arrive whole\n", habit, (unsigned long long)number);
    littoral_pool_view_free(writer);
    littoral_pool_view_free(reader);
    littoral_pool_free(pool);
    return number <= MESSAGES;
}
