/* The folder of a run: what was run, what the compiler decided, what happened, and checkpoints. */
#ifndef MPC_DRIVER_RUN_FOLDER_H
#define MPC_DRIVER_RUN_FOLDER_H

#include "driver/session.h"
#include "runtime/checkpoint.h"

typedef struct mpc_folder_hold { /* keeps other processes from training in a folder */
    int fd;
    bool held;
} mpc_folder_hold;

typedef struct mpc_run_folder {
    mpc_str path, checkpoints, log;
    mpc_folder_hold hold;
} mpc_run_folder;

/* Until the release or the end of the process, no other one gets this folder (E386). One that isn't there isn't held.
 */
bool mpc_folder_take(mpc_folder_hold *h, const char *path, const mpc_sink *sink);
void mpc_folder_release(mpc_folder_hold *h);
/* All folders of a path that are missing. */
bool mpc_make_folders(const char *path, const mpc_sink *sink);
bool mpc_folder_is_empty(const char *path); /* or isn't there yet */
void mpc_trim_slashes(mpc_str *path);       /* at its end; "/" stays */
/* runs/NAME-001, or with the next free number: made here, so that it belongs to one process. */
bool mpc_make_numbered_folder(const char *name, mpc_str *path, const mpc_sink *sink);
/* runs/NAME-001 and so on, or --out; made here, and held. */
bool mpc_run_folder_create(mpc_run_folder *f, mpc_session *s);
/* A folder that a run made (--resume); it is held. */
bool mpc_run_folder_open(mpc_run_folder *f, const char *path, const mpc_sink *sink);
void mpc_run_folder_free(mpc_run_folder *f);

/* Writes one file of the folder, whole. */
bool mpc_run_folder_put(const mpc_run_folder *f, const char *name, const char *text, size_t size, const mpc_sink *sink);
/* model.mpg, used/, resolved.mpg, run.json, assignment.txt. */
bool mpc_run_folder_describe(const mpc_run_folder *f, mpc_session *s);
/* Compares the settings with those in run.json (run_settings.c): what differs must be allowed by --change (E353), and
 * some can't (E376). */
bool mpc_run_folder_check_settings(const mpc_run_folder *f, mpc_session *s);
/* Says what --change has changed, and what becomes of the learning rate after `applied` updates. */
void mpc_run_note_changes(const mpc_session *s, const mpc_cursor *at, double applied);
/* Compares the session's assignment, which its first step has made, with the run's assignment.txt (E358). */
bool mpc_run_folder_check_assignment(const mpc_run_folder *f, mpc_session *s);

/* What messages call it: "runs/digits-003 (best)"; `path` is what mpc_find_checkpoint gave. */
void mpc_checkpoint_place(const char *from, const char *path, mpc_str *out);
/* Path of a checkpoint: `from` is a run folder or a checkpoint itself; which: best, last, a step, or NULL (best if
 * there is one). */
bool mpc_find_checkpoint(const char *from, const char *which, mpc_str *out, const mpc_sink *sink);

#endif
