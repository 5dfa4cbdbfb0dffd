#include "internal.h"

void fs_engine_begin_user_request(struct fs_engine *engine, struct fs_request *request)
{
    request->one = (struct iovec){NULL, 0};
    fs_request_prepare(request, FS_USER_REQUEST, NULL, 1);
    request->engine = engine;
}

void fs_engine_end_user_request(struct fs_engine *engine, struct fs_request *request, int error)
{
    fs_engine_lock(engine);
    request->tracked = 1;
    fs_complete(engine, request, error);
    fs_engine_unlock(engine);
}
