#ifndef PROTO_JSON_PACKED_H
#define PROTO_JSON_PACKED_H

#include "core/request.h"
#include "proto/json/json_scan.h"
#include "proto/numbers/numbers.h"
#include "proto/tensors/lender.h"

/* Numbers that a JSON object holds as bytes: {"b64":"AACAPw==","dtype":"f32","shape":[1]} */
struct json_packed {
    const void *values; /* a loan of the lender */
    enum dtype dtype;
    struct shape shape;
};

/*
 * Read such an object, whose '{' scan stands on; its three members come in any order.
 *
 *   param   names the field in messages ("logits"); lent for as long as the error is used
 *   lender  lends the bytes, and only if the text is as long as shape and dtype say
 *
 * The text is base64 of RFC 4648, section 4, padded; nothing else may stand between its characters.
 * Errors, all with param: STATUS_INVALID malformed_json, malformed_base64, wrong_type, wrong_length,
 * out_of_range, and missing_, unknown_ or duplicate_parameter; those of the lender.
 */
enum status json_packed_read(struct json_scan *scan, struct lender *lender, const char *param,
                             struct json_packed *out);

/* The same of words of 32 bits: dtype is "i32" or "u32", shape [W] or [B,W]; dtype of out says nothing. */
enum status json_packed_read_words(struct json_scan *scan, struct lender *lender, const char *param,
                                   struct json_packed *out);

#endif
