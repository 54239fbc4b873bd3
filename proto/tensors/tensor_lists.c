#include "proto/tensors/tensor_lists.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tensor as rows of lists: rank 1 is one list, and dimension 0 of the highest rank the batch. */
struct box {
    const struct tensor *tensor;
    const struct param *param;
    size_t rows, lists, width; /* lists of a row, values of a list */
    bool per_row;
};

static bool is_of_ids(const struct tensor *t)
{
    return t->type == TENSOR_I32 || t->type == TENSOR_I64;
}

static enum status open_box(const struct param *param, const struct tensor *t, size_t most, const char *must,
                            struct box *out, struct error *err)
{
    if (t->rank < 1 || t->rank > most)
        return tensors_refuse(param, t, "wrong_length", must, err);
    *out = (struct box){.tensor = t, .param = param, .rows = 1, .lists = 1, .width = t->dims[t->rank - 1]};
    out->per_row = t->rank == most;
    if (out->per_row)
        out->rows = t->dims[0];
    if (most == 3 && t->rank > 1)
        out->lists = t->dims[t->rank - 2];
    if (out->rows > 0)
        return STATUS_OK;
    return tensors_refuse(param, t, "wrong_length", must, err);
}

/* ---- ids ---- */

static enum status refuse_id(const struct box *box, size_t row, size_t i, int64_t id, struct error *err)
{
    char text[64];
    snprintf(text, sizeof text, "%" PRId64 "%s", id, id == -1 ? ", before the end of the list," : "");
    return params_refuse_id(box->param, "out_of_range", text, box->per_row ? row : ERROR_NO_ROW, i, err);
}

static int64_t id_at(const struct tensor *t, size_t i)
{
    int32_t narrow;
    int64_t wide;
    if (t->type == TENSOR_I64) {
        memcpy(&wide, (const char *)t->data + i * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)t->data + i * sizeof narrow, sizeof narrow);
    return narrow;
}

/* The ids of one list, up to the first -1, behind which there is nothing else. */
static enum status read_list(const struct box *box, size_t list, int32_t *out, size_t *count,
                             struct error *err)
{
    size_t first = list * box->width, n = 0;
    for (size_t i = 0; i < box->width; i++) {
        int64_t id = id_at(box->tensor, first + i);
        if (id == -1)
            continue;
        if (id < 0 || id > INT32_MAX)
            return refuse_id(box, list / box->lists, i, id, err);
        if (n < i)
            return refuse_id(box, list / box->lists, n, -1, err);
        out[n++] = (int32_t)id;
    }
    *count = n;
    return STATUS_OK;
}

/* Room for all ids, the starts of all lists and those of all rows; starts begin at 0. */
struct room {
    int32_t *ids;
    uint32_t *starts, *row_starts;
};

static bool lend_room(struct tensors *t, const struct box *box, struct room *out, struct error *err)
{
    size_t lists = box->rows * box->lists, ids = lists * box->width;
    if (ids > UINT32_MAX) {
        tensors_refuse(box->param, box->tensor, "wrong_length", "smaller", err);
        return false;
    }
    char *room = t->lender->lend(t->lender, 4 * (ids + lists + 1 + box->rows + 1), err);
    if (room == NULL)
        return false;
    out->ids = (int32_t *)(void *)room;
    out->starts = (uint32_t *)(out->ids + ids);
    out->row_starts = out->starts + lists + 1;
    out->starts[0] = out->row_starts[0] = 0;
    return true;
}

static enum status set_ids(struct tensors *t, const struct param *param, const struct tensor *tensor,
                           struct error *err)
{
    static const char must[] = "I32 or I64 [K] or [B, K], -1 at the end of shorter lists";
    struct box box = {0};
    struct room room;
    if (!is_of_ids(tensor))
        return tensors_refuse(param, tensor, "wrong_type", must, err);
    if (open_box(param, tensor, 2, must, &box, err) != STATUS_OK || !lend_room(t, &box, &room, err))
        return err->status;
    for (size_t row = 0; row < box.rows; row++) {
        size_t n = 0;
        if (read_list(&box, row, room.ids + room.starts[row], &n, err) != STATUS_OK)
            return err->status;
        room.starts[row + 1] = room.starts[row] + (uint32_t)n;
    }
    struct rule_value value = {.sent = true, .ids = {room.ids, room.starts, NULL, box.per_row}};
    params_set_lists(&t->params, param, &value, box.per_row ? box.rows : 0);
    return STATUS_OK;
}

/* ---- sequences ---- */

/* Single ids, each a sequence; or lists, of which those of nothing but -1 are left out. */
static enum status set_sequences(struct tensors *t, const struct param *param, const struct tensor *tensor,
                                 struct error *err)
{
    static const char must[] = "I32 or I64 [K], [S, K] or [B, S, K], -1 at the end of shorter sequences";
    struct box box = {0};
    struct room room;
    size_t used = 0, ids = 0, n = 0;
    if (!is_of_ids(tensor))
        return tensors_refuse(param, tensor, "wrong_type", must, err);
    if (open_box(param, tensor, 3, must, &box, err) != STATUS_OK)
        return err->status;
    if (tensor->rank == 1) {
        box.lists = box.width;
        box.width = 1;
    }
    if (!lend_room(t, &box, &room, err))
        return err->status;
    for (size_t list = 0; list < box.rows * box.lists; list++) {
        if (read_list(&box, list, room.ids + ids, &n, err) != STATUS_OK)
            return err->status;
        ids += n;
        if (n > 0)
            room.starts[++used] = (uint32_t)ids;
        room.row_starts[list / box.lists + 1] = (uint32_t)used;
    }
    if (box.lists == 0)
        memset(room.row_starts, 0, (box.rows + 1) * sizeof *room.row_starts);
    struct rule_value value = {
        .sent = true, .sequences = {{room.ids, room.starts, NULL, false}, room.row_starts, box.per_row}};
    params_set_lists(&t->params, param, &value, box.per_row ? box.rows : 0);
    return STATUS_OK;
}

/* ---- biases ---- */

static enum status keep_biases(const struct param *param, const struct tensor *tensor, struct tensor *kept,
                               struct error *err)
{
    static const char must[] = "F32, F16, BF16 or F64 [K] or [B, K]";
    enum dtype dtype;
    if (!tensors_find_dtype(tensor->type, &dtype))
        return tensors_refuse(param, tensor, "wrong_type", must, err);
    if (tensor->rank < 1 || tensor->rank > 2)
        return tensors_refuse(param, tensor, "wrong_length", must, err);
    *kept = *tensor;
    return STATUS_OK;
}

static enum status one_without_other(const struct tensors *t, struct error *err)
{
    const char *missing = t->bias_ids.name == NULL ? "logit_bias_ids" : "logit_bias_values";
    error_set(err, STATUS_INVALID, "missing_parameter",
              "%s is missing; logit_bias_ids and logit_bias_values come together", missing);
    return error_at(err, missing, ERROR_NO_ROW);
}

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* The values beside the ids, those behind the end of a list left out. */
static enum status read_biases(struct tensors *t, struct id_lists *lists, size_t rows, struct error *err)
{
    size_t width = t->bias_values.dims[t->bias_values.rank - 1];
    float *biases = t->lender->lend(t->lender, lists->starts[rows] * sizeof *biases + 1, err);
    if (biases == NULL)
        return err->status;
    for (size_t row = 0; row < rows; row++)
        for (size_t i = lists->starts[row]; i < lists->starts[row + 1]; i++)
            biases[i] = (float)tensors_number_at(&t->bias_values, row * width + i - lists->starts[row]);
    lists->biases = biases;
    return STATUS_OK;
}

enum status tensor_lists_finish(struct tensors *t, struct error *err)
{
    const struct param *param = params_find(PARAM_IN_TENSORS, "logit_bias_ids", strlen("logit_bias_ids"));
    if (t->bias_ids.name == NULL && t->bias_values.name == NULL)
        return STATUS_OK;
    if (t->bias_ids.name == NULL || t->bias_values.name == NULL)
        return one_without_other(t, err);
    if (!same_shape(&t->bias_ids, &t->bias_values)) {
        param = params_find(PARAM_IN_TENSORS, "logit_bias_values", strlen("logit_bias_values"));
        return tensors_refuse(param, &t->bias_values, "wrong_length", "of the shape of logit_bias_ids", err);
    }
    if (set_ids(t, param, &t->bias_ids, err) != STATUS_OK)
        return err->status;
    size_t rows = t->bias_ids.rank == 2 ? t->bias_ids.dims[0] : 1;
    return read_biases(t, &t->params.request.rule_values[SLOT_logit_bias].ids, rows, err);
}

/* ---- words, pairs, switches ---- */

static enum status set_bitmask(struct tensors *t, const struct param *param, const struct tensor *tensor,
                               struct error *err)
{
    static const char must[] = "I32 or U32 [W] or [B, W]";
    struct box box = {0};
    if (tensor->type != TENSOR_I32 && tensor->type != TENSOR_U32)
        return tensors_refuse(param, tensor, "wrong_type", must, err);
    if (open_box(param, tensor, 2, must, &box, err) != STATUS_OK)
        return err->status;
    const uint32_t *words =
        lender_align(t->lender, tensor->data, box.rows * box.width * sizeof *words, sizeof *words, err);
    if (words == NULL)
        return err->status;
    struct rule_value value = {.sent = true, .bitmask = {words, box.width, box.per_row}};
    params_set_lists(&t->params, param, &value, box.per_row ? box.rows : 0);
    return STATUS_OK;
}

static double *numbers_of(const struct tensor *tensor, size_t count, struct error *err)
{
    double *values = malloc(count * sizeof *values + 1);
    if (values == NULL)
        error_set(err, STATUS_NO_MEMORY, "no_memory", "cannot allocate memory for the request");
    for (size_t i = 0; values != NULL && i < count; i++)
        values[i] = tensors_number_at(tensor, i);
    return values;
}

static enum status set_pairs(struct tensors *t, const struct param *param, const struct tensor *tensor,
                             struct error *err)
{
    static const char must[] = "of a number type, [2] or [B, 2]";
    struct box box = {0};
    if (tensor->type == TENSOR_BOOL)
        return tensors_refuse(param, tensor, "wrong_type", must, err);
    if (open_box(param, tensor, 2, must, &box, err) != STATUS_OK)
        return err->status;
    if (box.width != 2)
        return tensors_refuse(param, tensor, "wrong_length", must, err);
    double *values = numbers_of(tensor, 2 * box.rows, err);
    if (values == NULL)
        return err->status;
    enum status status = params_set_pairs(&t->params, param, values, box.per_row ? box.rows : 0, err);
    free(values);
    return status;
}

static enum status set_switches(struct tensors *t, const struct param *param, const struct tensor *tensor,
                                struct error *err)
{
    size_t count;
    bool is_list;
    if (tensor->type >= TENSOR_F16)
        return tensors_refuse(param, tensor, "wrong_type", "BOOL, or 0 or 1 of an integer type", err);
    if (tensors_check_list(param, tensor, &count, &is_list, err) != STATUS_OK)
        return err->status;
    double *values = numbers_of(tensor, count, err);
    if (values == NULL)
        return err->status;
    enum status status = params_set_switches(&t->params, param, values, count, is_list, err);
    free(values);
    return status;
}

enum status tensor_lists_set(struct tensors *t, const struct param *param, const struct tensor *tensor,
                             struct error *err)
{
    switch (param->type) {
    case PARAM_ID_LISTS:
        return set_ids(t, param, tensor, err);
    case PARAM_BIAS_IDS:
        t->bias_ids = *tensor;
        return STATUS_OK;
    case PARAM_BIAS_VALUES:
        return keep_biases(param, tensor, &t->bias_values, err);
    case PARAM_SEQUENCES:
        return set_sequences(t, param, tensor, err);
    case PARAM_BITMASK:
        return set_bitmask(t, param, tensor, err);
    case PARAM_PAIR:
        return set_pairs(t, param, tensor, err);
    default:
        return set_switches(t, param, tensor, err);
    }
}
