"""What an API server refuses in the files of volumes: keys of ConfigMaps and Secrets, fields, tokens, certificates.

The paths are the real ones, a few of which are not those of the fields.

Source: pkg/apis/core/validation/validation.go, ``validateKeyToPath``, ``validateDownwardAPIVolumeFile``,
``validateProjectionSources``, ``ValidateUserAnnotations``; pkg/apis/core/validation/names.go (kubernetes v1.34.4,
v1.37.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ....golang.text import quoted
from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.metadata import validate_size
from ...api.registry.names import is_dns_label, is_dns_subdomain, is_qualified_name
from .checks import Fields, PodRules, among, check_file_mode, check_unreserved_path, refused, required
from .environment import FIELDS_OF_FILES, validate_field_reference, validate_resource_reference
from .scheduling import validate_label_selector

__all__ = ["token_sources", "validate_downward_files", "validate_items", "validate_projected"]

_SOURCES: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_FOR_WHAT_ONE: Final = Difference(
    "what may have one volume type only, in the text about the source of a projected volume",
    {"1.26": "", "1.31": " per source"},
    "pkg/apis/core/validation/validation.go, ``validateProjectionSources`` (kubernetes v1.30.14, v1.31.14)",
)
_CHECKS_TOKENS: Final = Difference(
    "the path of a service account's token has to be below its volume",
    {"1.26": False, "1.30": True},
    "pkg/apis/core/validation/validation.go, ``validateProjectionSources`` (kubernetes v1.29.6, v1.30.14)",
)
_TAKEN: Final = "conflicting duplicate paths"
_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_LEAST_S: Final = 10 * 60
_MOST_S: Final = 1 << 32
_LEAST_CERTIFICATE_S: Final = 3600
_MOST_CERTIFICATE_S: Final = 91 * 24 * 3600
_MOST_OF_KUBERNETES_S: Final = 24 * 3600
_DOMAIN_AT_MOST: Final = 253
_SIGNER_AT_MOST: Final = 571


def validate_items(items: Sequence[Fields], path: str) -> list[FieldError]:
    """What is wrong with the ``items`` of a ConfigMap or a Secret."""
    errors: list[FieldError] = []
    for place, item in enumerate(items):
        where = f"{path}[{place}]"
        errors += [*required(item, "key", where), *required(item, "path", where)]
        errors += check_unreserved_path(item.get("path") or "", f"{where}.path")
        errors += check_file_mode(item, "mode", where)
    return errors


def validate_downward_files(rules: PodRules, files: Sequence[Fields], path: str) -> list[FieldError]:
    """What is wrong with files that have fields and resources of the pod; all have the same path."""
    errors: list[FieldError] = []
    for file in files:
        field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
        errors += required(file, "path", path)
        errors += check_unreserved_path(file.get("path") or "", f"{path}.path")
        if field is not None:
            errors += validate_field_reference(rules, field, FIELDS_OF_FILES, f"{path}.fieldRef")
            if resource is not None:
                text = "fieldRef and resourceFieldRef can not be specified simultaneously"
                errors.append(FieldError.invalid(path, "resource", text))
        elif resource is not None:
            errors += validate_resource_reference(resource, f"{path}.resourceFieldRef", is_file=True)
        else:
            errors.append(FieldError.required(path, "one of fieldRef and resourceFieldRef is required"))
        errors += check_file_mode(file, "mode", path)
    return errors


def token_sources(volumes: Sequence[Fields], path: str) -> Iterator[str]:
    """The paths of the sources of volumes that are tokens of a service account."""
    for place, volume in enumerate(volumes):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                yield f"{path}[{place}].projected.sources[{number}].serviceAccountToken"


def validate_projected(rules: PodRules, volume: Fields, path: str) -> list[FieldError]:
    """What is wrong with a volume of several sources."""
    errors = check_file_mode(volume, "defaultMode", path)
    taken: set[str] = set()
    for place, source in enumerate(volume.get("sources") or ()):
        where = f"{path}.sources[{place}]"
        given = [kind for kind in _SOURCES if source.get(kind) is not None]
        for kind in given:
            at = f"{where}.{kind}"
            errors += _validate_source(rules, kind, source[kind], path, at)
            for file, shown in _files_of(kind, source[kind]):
                if file in taken:
                    errors.append(FieldError.invalid(path, shown, _TAKEN))
                taken.add(file)
        if len(given) > 1:
            text = f"may not specify more than 1 volume type{rules.of(_FOR_WHAT_ONE)}"
            errors.append(FieldError.forbidden(where, text))
    return errors


def _files_of(kind: str, source: Fields) -> Iterator[tuple[str, str]]:
    """The paths that a source has, and what a message shows of each."""
    if kind in ("secret", "configMap", "downwardAPI"):
        for item in source.get("items") or ():
            if file := item.get("path"):
                yield file, file if kind == "downwardAPI" else source.get("name") or ""
    elif kind == "clusterTrustBundle":
        yield (source.get("path") or "",) * 2
    elif kind == "podCertificate":
        for name in ("credentialBundlePath", "keyPath", "certificateChainPath"):
            if source.get(name):
                yield source[name], source[name]


def _validate_source(rules: PodRules, kind: str, source: Fields, path: str, at: str) -> list[FieldError]:
    match kind:
        case "secret" | "configMap":
            return required(source, "name", at) + validate_items(source.get("items") or (), f"{at}.items")
        case "downwardAPI":
            return validate_downward_files(rules, source.get("items") or (), at)
        case "serviceAccountToken":
            return _validate_token(rules, source, path, at)
        case "clusterTrustBundle":
            return _validate_trust(rules, source, at)
        case _:
            return _validate_certificate(rules, source, at)


def _validate_token(rules: PodRules, token: Fields, path: str, at: str) -> list[FieldError]:
    seconds, where, errors = token.get("expirationSeconds") or 0, f"{at}.expirationSeconds", []
    if seconds < _LEAST_S:
        errors.append(FieldError.invalid(where, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MOST_S:
        errors.append(FieldError.invalid(where, seconds, "may not specify a duration larger than 2^32 seconds"))
    if not token.get("path"):
        return [*errors, FieldError.required(f"{path}.path")]
    return errors + (check_unreserved_path(token["path"], f"{path}.path") if rules.of(_CHECKS_TOKENS) else [])


def _validate_trust(rules: PodRules, bundle: Fields, at: str) -> list[FieldError]:
    name, signer, selector = bundle.get("name"), bundle.get("signerName"), bundle.get("labelSelector")
    errors: list[FieldError] = []
    if name is not None and signer is not None:
        shown = {
            "Name": name, "SignerName": signer, "LabelSelector": selector,
            "Optional": bundle.get("optional"), "Path": bundle.get("path") or "",
        }  # fmt: skip
        errors.append(FieldError.invalid(at, shown, "only one of name and signerName may be used"))
    elif name is not None:
        errors += [] if name else [FieldError.required(f"{at}.name", "must be a valid object name")]
        faults = [f"not a valid clustertrustbundlename: {fault}" for fault in _bundle_name_faults(name)]
        errors += refused(name, f"{at}.name", faults)
        if selector is not None:
            text = "labelSelector must be unset if name is specified"
            errors.append(FieldError.invalid(f"{at}.labelSelector", selector, text))
    elif signer is not None:
        errors += [] if signer else [FieldError.required(f"{at}.signerName", "must be a valid signer name")]
        errors += _validate_signer(signer, f"{at}.signerName")
        errors += validate_label_selector(selector, f"{at}.labelSelector", rules.release)
    else:
        errors.append(FieldError.required(at, "either name or signerName must be specified"))
    return errors + required(bundle, "path", at) + check_unreserved_path(bundle.get("path") or "", f"{at}.path")


def _bundle_name_faults(name: str) -> list[str]:
    signer, colon, rest = name.rpartition(":")
    signer = signer.replace(":", "/")
    if colon and not signer:
        return ['ClusterTrustBundle without signer name must not have ":" in its name']
    return is_dns_subdomain(rest)


def _validate_certificate(rules: PodRules, certificate: Fields, at: str) -> list[FieldError]:
    signer, seconds = certificate.get("signerName") or "", certificate.get("maxExpirationSeconds")
    errors = _validate_signer(signer, f"{at}.signerName")
    errors += _validate_user_annotations(rules, certificate.get("userAnnotations") or {}, f"{at}.userAnnotations")
    errors += among(certificate.get("keyType") or "", _KEY_TYPES, f"{at}.keyType")
    if seconds is not None:
        domain = signer.partition("/")[0]
        is_own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
        most = _MOST_OF_KUBERNETES_S if is_own else _MOST_CERTIFICATE_S
        bounds = {
            f"if provided, maxExpirationSeconds must be >= {_LEAST_CERTIFICATE_S}": seconds >= _LEAST_CERTIFICATE_S,
            f"if provided, maxExpirationSeconds must be <= {most}": seconds <= most,
        }
        faults = [text for text, is_kept in bounds.items() if not is_kept]
        errors += refused(seconds, f"{at}.maxExpirationSeconds", faults)
    names = [n for n in ("credentialBundlePath", "keyPath", "certificateChainPath") if certificate.get(n)]
    for name in names:
        errors += check_unreserved_path(certificate[name], f"{at}.{name}")
    if not names:
        text = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(FieldError.required(at, text))
    return errors


def _validate_user_annotations(rules: PodRules, annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """What is wrong with what a certificate's signer is told; only releases from 1.37 on keep certificates."""
    errors: list[FieldError] = []
    for key in map(str.lower, annotations):
        faults = is_qualified_name(key, rules.release)
        if key and not faults and "/" not in key:
            faults = ['must be a domain-prefixed key (such as "acme.io/foo")']
        errors += refused(key, path, faults) if key else [FieldError.required(path)]
    return errors + validate_size(annotations, path)


def _validate_signer(signer: str, path: str) -> list[FieldError]:
    if not signer:
        return [FieldError.required(path)]
    domain, slash, rest = signer.partition("/")
    if not slash or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [FieldError.invalid(path, signer, text)]
    errors = [FieldError.too_long(path, _DOMAIN_AT_MOST)] if len(domain.encode()) > _DOMAIN_AT_MOST else []
    for part, faults_of in ((domain, is_dns_label), (rest, is_dns_subdomain)):
        label = next((label for label in part.split(".") if faults_of(label)), None)
        if label is not None:
            faults = [f"validating label {quoted(label)}: {fault}" for fault in faults_of(label)]
            errors += refused(part, path, faults)
        if part is domain and "." not in domain:
            text = "should be a domain with at least two segments separated by dots"
            errors.append(FieldError.invalid(path, domain, text))
    return errors + ([FieldError.too_long(path, _SIGNER_AT_MOST)] if len(signer.encode()) > _SIGNER_AT_MOST else [])
