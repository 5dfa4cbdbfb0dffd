/* The share of the time that looks may take: by made-up clocks, so nothing here depends on the machine. */
#define _GNU_SOURCE
#include <unistd.h>

#include "connection.h"
#include "looking.h"

#define THREADS 4
#define CHARGES 2000

static uint64_t us(double microseconds) { return (uint64_t)(microseconds * fs_ticks_per_us()); }

/* So many threads look by turns, `pause` after one another, whenever they may; ticks that all looks took of `whole`. */
static uint64_t looked_of(uint64_t whole, uint64_t wanted, uint64_t pause)
{
    uint64_t now = fs_ticks(), end = now + whole, looked = 0;
    while (now < end) {
        uint64_t ticks = fs_look_credit(now, wanted);
        CHECK(ticks <= wanted);
        if (ticks != 0) fs_look_charge(now, now + ticks);
        looked += ticks;
        now += ticks + pause;
    }
    return looked;
}

TEST(looks_in_vain_have_their_share_of_the_time, 0)
{
    const uint64_t whole = us(1e5), most = whole / FS_LOOK_SHARE + us(1000);
    const double wanted[] = {0.01, 2, 50, 5000}, pauses[] = {0.1, 3, 100};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (size_t j = 0; j < sizeof pauses / sizeof *pauses; j++) {
            fs_looking.paid_until = 0;
            uint64_t looked = looked_of(whole, us(wanted[i]), us(pauses[j]));
            CHECK(looked > 0 && looked <= most);
        }
    fs_looking.paid_until = 0;
    CHECK(looked_of(us(1e5), us(1), us(99)) >= 999 * us(1)); /* less than their share: each is had */
}

TEST(a_look_that_took_longer_than_it_was_to_is_paid_for, 0)
{
    uint64_t now = fs_ticks();
    fs_look_charge(now, now + us(5000)); /* its thread did not run meanwhile */
    CHECK_EQUAL(fs_look_credit(now + us(5000), us(2)), 0);
    CHECK_EQUAL(fs_look_credit(now + us(5000) + FS_LOOK_SHARE * us(3500), us(2)), 0);
    CHECK(fs_look_credit(now + us(1) + FS_LOOK_SHARE * us(5000), us(2)) > 0);
    fs_look_charge(now, now + us(1e7)); /* not for ever: it may have been stopped */
    CHECK(fs_look_credit(now + us(1.3e7), us(2)) > 0);
}

static int nobody_else(void) { return 1; }
static int somebody_else(void) { return 0; }

TEST(a_thread_alone_keeps_nobody_waiting, 0)
{
    fs_look_configure(2, somebody_else);
    uint64_t now = fs_ticks();
    fs_look_charge(now, now + us(5000));
    CHECK_EQUAL(fs_look_granted(now + us(5000), us(2)), 0);
    fs_look_configure(2, nobody_else);
    CHECK_EQUAL(fs_look_granted(now + us(5000), us(2)), us(2));
    fs_look_configure(2, somebody_else); /* begun since: its looks are those of both from now on */
    CHECK_EQUAL(fs_look_granted(now + us(5000), us(2)), us(2));
}

TEST(a_look_that_was_answered_is_paid_for_beside_a_thread_that_computes, 0)
{
    uint64_t before = fs_looked();
    fs_look_ended(fs_ticks(), 1);
    CHECK_EQUAL(fs_looked(), before);
    fs_look_ended(fs_ticks() - 10, 0);
    CHECK(fs_looked() >= before + 10);
    fs_lock_is_contended(us(5000));
    before = fs_looked();
    fs_look_ended(fs_ticks() - 10, 1);
    CHECK(fs_looked() >= before + 10);
    fs_lock_is_free();
}

TEST(what_others_looked_is_no_sign_of_a_thread_that_computes, 0)
{
    struct fs_lock_wait wait;
    fs_lock_wait_begins(&wait);
    wait.since -= us(5000);
    CHECK(fs_lock_wait_ends(&wait) >= us(5000));
    fs_look_charge(wait.since, fs_ticks() + us(10000));
    CHECK_EQUAL(fs_lock_wait_ends(&wait), 0);
}

static void *charge(void *argument)
{
    (void)argument;
    for (int i = 0; i < CHARGES; i++) fs_look_charge(1000, 1001);
    return NULL;
}

TEST(threads_charge_at_once, 0)
{
    pthread_t threads[THREADS];
    uint64_t before = fs_looked();
    fs_looking.paid_until = 1000;
    for (int i = 0; i < THREADS; i++) threads[i] = start_thread(charge, NULL);
    for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
    CHECK_EQUAL(fs_looked() - before, THREADS * CHARGES);
    CHECK_EQUAL(fs_looking.paid_until, 1000 + THREADS * CHARGES * FS_LOOK_SHARE);
}

TEST(a_forked_child_owes_nothing, NEEDS_PROCESSES)
{
    uint64_t now = fs_ticks();
    fs_look_charge(now, now + us(9000));
    fs_lock_is_contended(us(1e7));
    uint64_t owed = fs_looking.paid_until;
    pid_t child = start_process();
    if (child == 0) {
        CHECK_EQUAL(fs_looked(), 0);
        CHECK(!fs_is_contended() && !fs_is_time_to_offer(UINT64_MAX));
        CHECK_EQUAL(fs_look_credit(fs_ticks(), us(2)), us(2));
        _exit(0);
    }
    join_process(child);
    CHECK_EQUAL(fs_looking.paid_until, owed);
    CHECK(fs_is_contended());
}
